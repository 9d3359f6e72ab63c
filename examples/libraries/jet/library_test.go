package library_test

import (
	"context"
	"database/sql"
	"testing"

	library "github.com/sqlfence/sqlfence/examples/libraries/jet"
	after "github.com/sqlfence/sqlfence/examples/libraries/jet/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/jet/before"
	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL),
		After:  program(after.OpenPostgreSQL),
	})
}

func program(open func(dsn string) (*sql.DB, error)) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		l := library.New(db)
		if err := l.Migrate(ctx); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: db, Operations: operations(l)}, nil
	}
}

func operations(l *library.Library) []repertoire.Operation {
	type ctx = context.Context
	return []repertoire.Operation{
		{Name: "create with defaults", Do: func(c ctx) (any, error) { return l.Buy(c, "emma") }},
		{Name: "batch create with DEFAULT", Do: func(c ctx) (any, error) { return l.Import(c, "dune", "kim", "ulysses", "walden") }},
		{Name: "upsert, inserting", Do: func(c ctx) (any, error) { return l.Add(c, "candide", 2) }},
		{Name: "upsert, updating", Do: func(c ctx) (any, error) { return l.Add(c, "candide", 3) }},
		{Name: "insert or nothing", Do: func(c ctx) (any, error) { return l.Lend(c, "emma", "ann", "bob", "ann") }},
		{Name: "update by OR with RETURNING", Do: func(c ctx) (any, error) { return l.Move(c, "north", "emma", 4) }},
		{Name: "update from another table", Do: func(c ctx) (any, error) { return l.Return(c, "emma", "bob") }},
		{Name: "delete in a CTE under an update", Do: func(c ctx) (any, error) { return l.Archive(c) }},
		{Name: "nested transaction", Do: func(c ctx) (any, error) { return nil, l.Audit(c) }},
		{Name: "raw SQL", Do: func(c ctx) (any, error) { return l.Recount(c, 3) }},
		{Name: "soft delete", Do: func(c ctx) (any, error) { return l.Withdraw(c, "kim") }},
		{Name: "delete", Do: func(c ctx) (any, error) { return l.Purge(c) }},
		{Name: "reads", Read: true, Do: func(c ctx) (any, error) { return l.Titles(c) }},
		{Name: "a migration", Do: func(c ctx) (any, error) { return nil, l.AddColumn(c) }},
	}
}
