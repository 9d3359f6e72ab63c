package tasks_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	tasks "github.com/sqlfence/sqlfence/examples/libraries/goose"
	after "github.com/sqlfence/sqlfence/examples/libraries/goose/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/goose/before"
	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
	"github.com/sqlfence/sqlfence/guard"
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

// On MariaDB definitions commit at once: they belong to the first migration, which runs
// without a token.
func TestOnMariaDB(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.MariaDB,
		Before: program(before.OpenMariaDB, tasks.NewMariaDB),
		After:  program(after.OpenMariaDB, tasks.NewMariaDB),
	})
}

func TestOnMariaDBDefinitionsAreRefusedUnderAToken(t *testing.T) {
	repertoire.MariaDB.Fenced(t, func(t *testing.T, dsn string, _, valid context.Context) {
		for _, c := range []struct {
			ctx  context.Context
			want error
		}{{valid, guard.ErrUnsupported}, {t.Context(), nil}} {
			db, err := after.OpenMariaDB(dsn)
			if err != nil {
				t.Fatal(err)
			}
			l, err := tasks.NewMariaDB(db)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if _, err := l.UpTo(c.ctx, 1); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		}
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
		{Name: "a migration in a transaction", Do: func(c ctx) (any, error) { return l.UpTo(c, 2) }},
		{Name: "a migration outside of a transaction", Do: func(c ctx) (any, error) { return l.UpTo(c, 3) }},
		{Name: "update", Do: func(c ctx) (any, error) { return l.Finish(c) }},
		{Name: "migrations back", Do: func(c ctx) (any, error) { return l.DownTo(c, 1) }},
	}
}
