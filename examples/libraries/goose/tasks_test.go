package tasks_test

import (
	"context"
	"database/sql"
	"testing"

	tasks "github.com/sqlfence/sqlfence/examples/libraries/goose"
	after "github.com/sqlfence/sqlfence/examples/libraries/goose/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/goose/before"
	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, tasks.NewPostgreSQL),
		After:  program(after.OpenPostgreSQL, tasks.NewPostgreSQL),
	})
}

func TestOnSQLite(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite, tasks.NewSQLite),
		After:  program(after.OpenSQLite, tasks.NewSQLite),
	})
}

// program opens the list with the first migration, run at the start and so without a
// token.
func program(open func(dsn string) (*sql.DB, error), start func(*sql.DB) (*tasks.List, error)) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		l, err := start(db)
		if err != nil {
			return nil, err
		}
		if _, err := l.UpTo(ctx, 1); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: l, Operations: operations(l)}, nil
	}
}

func operations(l *tasks.List) []repertoire.Operation {
	type ctx = context.Context
	return []repertoire.Operation{
		{Name: "a migration with functions, triggers and rows", Do: func(c ctx) (any, error) { return l.UpTo(c, 2) }},
		{Name: "a migration outside of a transaction", Do: func(c ctx) (any, error) { return l.UpTo(c, 3) }},
		{Name: "update", Do: func(c ctx) (any, error) { return l.Finish(c) }},
		{Name: "migrations back", Do: func(c ctx) (any, error) { return l.DownTo(c, 1) }},
	}
}
