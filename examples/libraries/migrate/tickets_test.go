package tickets_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/postgres"
	tickets "github.com/sqlfence/sqlfence/examples/libraries/migrate"
	after "github.com/sqlfence/sqlfence/examples/libraries/migrate/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/migrate/before"
	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
	"github.com/sqlfence/sqlfence/guard"
)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL),
		After:  program(after.OpenPostgreSQL),
	})
}

// program opens the office with all migrations, which run without a token.
func program(open func(dsn string) (*sql.DB, error)) func(context.Context, string) (*repertoire.Program, error) {
	return func(_ context.Context, dsn string) (*repertoire.Program, error) {
		first, err := open(dsn)
		if err != nil {
			return nil, err
		}
		if err := tickets.Migrate(first); err != nil {
			return nil, err
		}
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: db, Operations: operations(tickets.New(db))}, nil
	}
}

func operations(o *tickets.Office) []repertoire.Operation {
	type ctx = context.Context
	return []repertoire.Operation{
		{Name: "update with RETURNING", Do: func(c ctx) (any, error) { return o.Sell(c, "1b") }},
		{Name: "delete", Do: func(c ctx) (any, error) { return o.Refund(c) }},
	}
}

// What golang-migrate runs has no token and cannot be given one. A policy that requires
// tokens cannot tell which tables several statements in one file write, if one of them
// is a definition: the pool for migrations is opened with the bare driver.
func TestMigrationsBesideAPolicy(t *testing.T) {
	const name = "sqlfence-pgx-requires"
	policy, err := guard.NewPolicy(guard.Tables("tickets"), guard.Require())
	if err != nil {
		t.Fatal(err)
	}
	postgres.Register(name, driver.WithPolicy(policy))
	repertoire.PostgreSQL.Fenced(t, func(t *testing.T, dsn string, _, _ context.Context) {
		db, err := sql.Open(name, dsn)
		if err != nil {
			t.Fatal(err)
		}
		const refusal = "unguarded write"
		if err := tickets.Migrate(db); err == nil || !strings.Contains(err.Error(), refusal) {
			t.Errorf("through the policy: %v; want an error that says %q", err, refusal)
		}
	})
	repertoire.PostgreSQL.Fenced(t, func(t *testing.T, dsn string, _, valid context.Context) {
		for _, step := range []func(*sql.DB) error{tickets.Migrate, tickets.Back, tickets.Migrate} {
			db, err := before.OpenPostgreSQL(dsn)
			if err != nil {
				t.Fatal(err)
			}
			if err := step(db); err != nil {
				t.Fatalf("through the bare driver: %v", err)
			}
		}
		db, err := sql.Open(name, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		office := tickets.New(db)
		if _, err := office.Sell(t.Context(), "1a"); !errors.Is(err, guard.ErrUnguarded) {
			t.Errorf("without a token: %v, want %v", err, guard.ErrUnguarded)
		}
		if _, err := office.Sell(valid, "1a"); err != nil {
			t.Errorf("with a valid token: %v", err)
		}
	})
}
