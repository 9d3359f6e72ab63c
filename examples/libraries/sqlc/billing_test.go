package billing_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
	billing "github.com/sqlfence/sqlfence/examples/libraries/sqlc"
	after "github.com/sqlfence/sqlfence/examples/libraries/sqlc/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/sqlc/before"
)

func TestOnPostgreSQL(t *testing.T) {
	plain := func(_ context.Context, db *sql.DB) (*billing.Billing, error) { return billing.New(db), nil }
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, plain),
		After:  program(after.OpenPostgreSQL, plain),
	})
}

func TestOnPostgreSQLPrepared(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, billing.Prepare),
		After:  program(after.OpenPostgreSQL, billing.Prepare),
	})
}

func program(open func(dsn string) (*sql.DB, error), start func(context.Context, *sql.DB) (*billing.Billing, error)) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		if err := billing.Migrate(ctx, db); err != nil {
			return nil, err
		}
		b, err := start(ctx, db)
		if err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: b, Operations: operations(b)}, nil
	}
}

func operations(b *billing.Billing) []repertoire.Operation {
	type ctx = context.Context
	may := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	return []repertoire.Operation{
		{Name: "create with defaults", Do: func(c ctx) (any, error) { return b.Open(c, "ann") }},
		{Name: "batch create", Do: func(c ctx) (any, error) {
			return b.Import(c, []string{"bob", "cid"}, []string{"basic", "gold"})
		}},
		{Name: "insert or nothing", Do: func(c ctx) (any, error) { return b.Know(c, "eve") }},
		{Name: "partial update", Do: func(c ctx) (any, error) { return nil, b.Change(c, "eve", "gold") }},
		{Name: "update by OR", Do: func(c ctx) (any, error) { return b.Charge(c, "gold", 500) }},
		{Name: "upsert from SELECT, inserting", Do: func(c ctx) (any, error) { return b.Bill(c, may) }},
		{Name: "upsert from SELECT, updating", Do: func(c ctx) (any, error) { return b.Bill(c, may) }},
		{Name: "update with RETURNING", Do: func(c ctx) (any, error) { return b.Annotate(c, "cid", "late") }},
		{Name: "writes in CTEs under SELECT", Do: func(c ctx) (any, error) { return b.Pay(c, "cid") }},
		{Name: "nested transaction", Do: func(c ctx) (any, error) { return nil, b.Dispute(c, "ann") }},
		{Name: "soft delete", Do: func(c ctx) (any, error) { return b.End(c, "cid", "bob") }},
		{Name: "delete with USING and RETURNING", Do: func(c ctx) (any, error) { return b.Purge(c) }},
		{Name: "reads", Read: true, Do: func(c ctx) (any, error) { return b.Balances(c) }},
		{Name: "a migration", Do: func(c ctx) (any, error) { return nil, b.AddColumn(c) }},
	}
}
