package mailer_test

import (
	"context"
	"database/sql"
	"regexp"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
	mailer "github.com/sqlfence/sqlfence/examples/libraries/river"
	after "github.com/sqlfence/sqlfence/examples/libraries/river/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/river/before"
)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, mailer.NewPostgreSQL),
		After:  program(after.OpenPostgreSQL, mailer.NewPostgreSQL),
	})
}

func TestOnSQLite(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite, mailer.NewSQLite),
		After:  program(after.OpenSQLite, mailer.NewSQLite),
		Random: regexp.MustCompile(`unique_nonce":"[0-9a-f]{16}`), // in river_job.metadata
	})
}

func program(open func(dsn string) (*sql.DB, error), start func(*sql.DB) (*mailer.Shop, error)) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		s, err := start(db)
		if err != nil {
			return nil, err
		}
		if err := s.Migrate(ctx); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: s, Operations: operations(s)}, nil
	}
}

func operations(s *mailer.Shop) []repertoire.Operation {
	type ctx = context.Context
	later := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	return []repertoire.Operation{
		{Name: "insert", Do: func(c ctx) (any, error) { return s.Remind(c, "ann") }},
		{Name: "unique insert", Do: func(c ctx) (any, error) { return s.Once(c, "bob") }},
		{Name: "batch insert", Do: func(c ctx) (any, error) { return s.Newsletter(c, later, "cid", "dan") }},
		{Name: "batch insert, fast", Do: func(c ctx) (any, error) { return s.Quick(c, "eve", "fay") }},
		{Name: "insert in a transaction", Do: func(c ctx) (any, error) { return nil, s.Order(c, "gus", true) }},
		{Name: "cancel", Do: func(c ctx) (any, error) { return s.Cancel(c, "ann") }},
		{Name: "retry", Do: func(c ctx) (any, error) { return s.Retry(c, "ann") }},
		{Name: "delete", Do: func(c ctx) (any, error) { return nil, s.Drop(c, "eve") }},
		{Name: "reads", Read: true, Do: func(c ctx) (any, error) { return s.Waiting(c) }},
	}
}
