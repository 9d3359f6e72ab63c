package report_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
	report "github.com/sqlfence/sqlfence/examples/libraries/sqlx"
	after "github.com/sqlfence/sqlfence/examples/libraries/sqlx/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/sqlx/before"
)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, report.New),
		After:  program(after.OpenPostgreSQL, report.New),
	})
}

func TestOnSQLite(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite, report.New),
		After:  program(after.OpenSQLite, report.New),
	})
}

func TestOnMariaDB(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine:  repertoire.MariaDB,
		Before:  program(before.OpenMariaDB, report.NewMariaDB),
		After:   program(after.OpenMariaDB, report.NewMariaDB),
		Without: []string{"named update by OR with RETURNING", "a migration"}, // it has no UPDATE … RETURNING; definitions are refused
	})
}

func program(open func(dsn string) (*sqlx.DB, error), start func(*sqlx.DB) *report.Cron) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		c := start(db)
		if err := c.Migrate(ctx); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: db, Operations: operations(c)}, nil
	}
}

func operations(r *report.Cron) []repertoire.Operation {
	type ctx = context.Context
	return []repertoire.Operation{
		{Name: "batch create from structs", Do: func(c ctx) (any, error) {
			return r.Book(c, []report.Sale{{"a", "mon", "north", 300}, {"b", "mon", "south", 200}, {"c", "mon", "north", 50}, {"d", "tue", "north", 9}})
		}},
		{Name: "create with defaults and RETURNING", Do: func(c ctx) (any, error) { return r.Begin(c, "mon", "north") }},
		{Name: "upsert from SELECT, named", Do: func(c ctx) (any, error) { return r.Sum(c, "mon") }},
		{Name: "insert or nothing", Do: func(c ctx) (any, error) { return r.Open(c, "tue", "north") }},
		{Name: "partial update of a list", Do: func(c ctx) (any, error) { return r.Close(c, "mon", "north", "south") }},
		{Name: "named update by OR with RETURNING", Do: func(c ctx) (any, error) {
			return r.Annotate(c, report.Report{Day: "mon", Region: "south", Note: sql.NullString{String: "it's late", Valid: true}})
		}},
		{Name: "prepared statements, plain and named", Do: func(c ctx) (any, error) { return nil, r.Correct(c, "mon", 7) }},
		{Name: "nested transaction", Do: func(c ctx) (any, error) { return nil, r.Restate(c, "tue") }},
		{Name: "delete with RETURNING", Do: func(c ctx) (any, error) { return r.Forget(c, "mon") }},
		{Name: "reads", Read: true, Do: func(c ctx) (any, error) { return r.Lines(c) }},
		{Name: "a migration", Do: func(c ctx) (any, error) { return nil, r.AddColumn(c) }},
	}
}
