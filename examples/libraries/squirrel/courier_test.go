package courier_test

import (
	"context"
	"database/sql"
	"testing"

	sq "github.com/Masterminds/squirrel"

	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
	courier "github.com/sqlfence/sqlfence/examples/libraries/squirrel"
	after "github.com/sqlfence/sqlfence/examples/libraries/squirrel/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/squirrel/before"
)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, courier.New, sq.Dollar),
		After:  program(after.OpenPostgreSQL, courier.New, sq.Dollar),
	})
}

func TestOnPostgreSQLPrepared(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, courier.NewPrepared, sq.Dollar),
		After:  program(after.OpenPostgreSQL, courier.NewPrepared, sq.Dollar),
	})
}

func TestOnSQLite(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite, courier.New, sq.Question),
		After:  program(after.OpenSQLite, courier.New, sq.Question),
	})
}

func TestOnSQLitePrepared(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite, courier.NewPrepared, sq.Question),
		After:  program(after.OpenSQLite, courier.NewPrepared, sq.Question),
	})
}

func TestOnMariaDB(t *testing.T) {
	onMariaDB(t, courier.NewMariaDB)
}

func TestOnMariaDBPrepared(t *testing.T) {
	onMariaDB(t, courier.NewMariaDBPrepared)
}

func onMariaDB(t *testing.T, start func(*sql.DB, sq.PlaceholderFormat) *courier.Dispatch) {
	repertoire.Play(t, repertoire.Subject{
		Engine:  repertoire.MariaDB,
		Before:  program(before.OpenMariaDB, start, sq.Question),
		After:   program(after.OpenMariaDB, start, sq.Question),
		Without: []string{"update with a CTE and a comment at the end", "a migration"}, // it has no WITH before UPDATE; definitions are refused
	})
}

func program(open func(dsn string) (*sql.DB, error), start func(*sql.DB, sq.PlaceholderFormat) *courier.Dispatch, format sq.PlaceholderFormat) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		d := start(db, format)
		if err := d.Migrate(ctx); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: db, Operations: operations(d)}, nil
	}
}

func operations(d *courier.Dispatch) []repertoire.Operation {
	type ctx = context.Context
	return []repertoire.Operation{
		{Name: "create with defaults", Do: func(c ctx) (any, error) {
			state, grams, err := d.Accept(c, "p1", "bonn")
			return []any{state, grams}, err
		}},
		{Name: "batch create", Do: func(c ctx) (any, error) { return d.Import(c, "kiel", "p2", "p3", "p4") }},
		{Name: "upsert, inserting", Do: func(c ctx) (any, error) { return d.Hire(c, "ann", 2) }},
		{Name: "upsert, updating", Do: func(c ctx) (any, error) { return d.Hire(c, "ann", 3) }},
		{Name: "insert from SELECT", Do: func(c ctx) (any, error) { return d.Copy(c, "kiel") }},
		{Name: "update by OR", Do: func(c ctx) (any, error) { return d.Assign(c, "ann", "bonn", 1001) }},
		{Name: "update with a CTE and a comment at the end", Do: func(c ctx) (any, error) { return d.Weigh(c, "ann") }},
		{Name: "nested transaction", Do: func(c ctx) (any, error) { return nil, d.Deliver(c, "p1", "p3") }},
		{Name: "raw delete with RETURNING", Do: func(c ctx) (any, error) { return d.Archive(c) }},
		{Name: "delete", Do: func(c ctx) (any, error) { return d.Dismiss(c, "kiel") }},
		{Name: "reads", Read: true, Do: func(c ctx) (any, error) { return d.Open(c) }},
		{Name: "a migration", Do: func(c ctx) (any, error) { return nil, d.AddColumn(c) }},
	}
}
