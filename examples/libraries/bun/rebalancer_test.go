package rebalancer_test

import (
	"context"
	"testing"

	"github.com/uptrace/bun"

	rebalancer "github.com/sqlfence/sqlfence/examples/libraries/bun"
	after "github.com/sqlfence/sqlfence/examples/libraries/bun/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/bun/before"
	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
)

func TestOnPostgreSQL(t *testing.T) {
	const count = `UPDATE shards SET size = size + $1 WHERE code = $2`
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, count),
		After:  program(after.OpenPostgreSQL, count),
	})
}

func TestOnPostgreSQLThroughPgdriver(t *testing.T) {
	const count = `UPDATE shards SET size = size + $1 WHERE code = $2`
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPgdriver, count),
		After:  program(after.OpenPgdriver, count),
	})
}

func TestOnSQLite(t *testing.T) {
	const count = `UPDATE shards SET size = size + ? WHERE code = ?`
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite, count),
		After:  program(after.OpenSQLite, count),
	})
}

func TestOnMariaDB(t *testing.T) {
	const count = `UPDATE shards SET size = size + ? WHERE code = ?`
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.MariaDB,
		Before: program(before.OpenMariaDB, count),
		After:  program(after.OpenMariaDB, count),
		// It has no UPDATE … RETURNING and no WITH before UPDATE; definitions are refused.
		Without: []string{"update by OR with RETURNING", "update of many from values", "update from a CTE", "raw SQL with RETURNING", "a migration"},
	})
}

func program(open func(dsn string) (*bun.DB, error), count string) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		r := rebalancer.New(db)
		if err := r.Migrate(ctx); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: db, Operations: operations(r, count)}, nil
	}
}

func operations(r *rebalancer.Rebalancer, count string) []repertoire.Operation {
	type ctx = context.Context
	return []repertoire.Operation{
		{Name: "create with defaults", Do: func(c ctx) (any, error) {
			n, err := r.Join(c, "north")
			return []any{n.ID, n.Zone, n.Weight}, err
		}},
		{Name: "batch create with defaults", Do: func(c ctx) (any, error) {
			return r.Split(c, "north", []*rebalancer.Shard{{Key: "2", State: "hot", Rows: 90}, {Key: "1"}, {Key: "3", Rows: 7}})
		}},
		{Name: "insert or nothing, with a clause of its own for RETURNING", Do: func(c ctx) (any, error) { return r.Know(c, "north", "south") }},
		{Name: "upsert, inserting", Do: func(c ctx) (any, error) { return r.Plan(c, "hot", "south") }},
		{Name: "upsert, updating", Do: func(c ctx) (any, error) { return r.Plan(c, "hot", "north") }},
		{Name: "partial update", Do: func(c ctx) (any, error) { return r.Grow(c, "3", 12) }},
		{Name: "update by OR with RETURNING", Do: func(c ctx) (any, error) { return r.Freeze(c, 50, "1") }},
		{Name: "update of many from values", Do: func(c ctx) (any, error) {
			return r.Level(c, map[string]int64{"1": 40, "2": 41}, "1", "2")
		}},
		{Name: "update from a CTE", Do: func(c ctx) (any, error) { return r.Carry(c) }},
		{Name: "nested transactions", Do: func(c ctx) (any, error) { return nil, r.Swap(c, "1", "2") }},
		{Name: "prepared statement", Do: func(c ctx) (any, error) { return nil, r.Count(c, count, "3") }},
		{Name: "raw SQL with RETURNING", Do: func(c ctx) (any, error) { return r.Rename(c, "south", "east") }},
		{Name: "raw SQL with a trailing comment", Do: func(c ctx) (any, error) { return r.Weigh(c, "a") }},
		{Name: "soft delete", Do: func(c ctx) (any, error) { return r.Retire(c, "3") }},
		{Name: "delete", Do: func(c ctx) (any, error) { return r.Purge(c) }},
		{Name: "reads", Read: true, Do: func(c ctx) (any, error) { return r.Report(c) }},
		{Name: "a migration", Do: func(c ctx) (any, error) { return nil, r.AddColumn(c) }},
	}
}
