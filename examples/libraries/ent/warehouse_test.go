package warehouse_test

import (
	"context"
	"testing"
	"time"

	warehouse "github.com/sqlfence/sqlfence/examples/libraries/ent"
	after "github.com/sqlfence/sqlfence/examples/libraries/ent/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/ent/before"
	"github.com/sqlfence/sqlfence/examples/libraries/ent/gen"
	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL),
		After:  program(after.OpenPostgreSQL),
	})
}

func TestOnSQLite(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite),
		After:  program(after.OpenSQLite),
	})
}

func TestOnMariaDB(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine:  repertoire.MariaDB,
		Before:  program(before.OpenMariaDB),
		After:   program(after.OpenMariaDB),
		Without: []string{"raw SQL with RETURNING", "a migration"}, // it has no UPDATE … RETURNING; definitions are refused
	})
}

func program(open func(dsn string) (*gen.Client, error)) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		client, err := open(dsn)
		if err != nil {
			return nil, err
		}
		w := warehouse.New(client)
		if err := w.Migrate(ctx); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: client, Operations: operations(w)}, nil
	}
}

func operations(w *warehouse.Warehouse) []repertoire.Operation {
	type ctx = context.Context
	return []repertoire.Operation{
		{Name: "create with defaults", Do: func(c ctx) (any, error) { return w.Stock(c, "tea") }},
		{Name: "batch create with defaults", Do: func(c ctx) (any, error) { return w.Import(c, "milk", "salt", "rice") }},
		{Name: "upsert, inserting", Do: func(c ctx) (any, error) { return nil, w.Receive(c, "corn", 4) }},
		{Name: "upsert, updating", Do: func(c ctx) (any, error) { return nil, w.Receive(c, "corn", 5) }},
		{Name: "insert or nothing", Do: func(c ctx) (any, error) { return nil, w.Know(c, "corn", "oats") }},
		{Name: "edges of one to many", Do: func(c ctx) (any, error) { return nil, w.Assign(c, "tea", 3, 4) }},
		{Name: "edges of many to many, replaced", Do: func(c ctx) (any, error) { return nil, w.Substitute(c, "rice", "corn", "oats") }},
		{Name: "partial update of one", Do: func(c ctx) (any, error) { return w.Move(c, "tea", "south") }},
		{Name: "update by OR", Do: func(c ctx) (any, error) { return w.Mark(c, 15, "milk") }},
		{Name: "nested transaction", Do: func(c ctx) (any, error) { return nil, w.Pick(c, "tea") }},
		{Name: "raw SQL with RETURNING", Do: func(c ctx) (any, error) { return w.Recount(c) }},
		{Name: "soft delete", Do: func(c ctx) (any, error) { return nil, w.Retire(c, "salt", time.Now()) }},
		{Name: "delete", Do: func(c ctx) (any, error) { return w.Purge(c) }},
		{Name: "delete of one", Do: func(c ctx) (any, error) { return nil, w.Drop(c, 3) }},
		{Name: "reads", Read: true, Do: func(c ctx) (any, error) { return w.Lists(c) }},
		{Name: "a migration", Do: func(c ctx) (any, error) { return nil, w.AddColumn(c) }},
	}
}
