package printer_test

import (
	"context"
	"testing"

	"xorm.io/xorm"
	"xorm.io/xorm/dialects"

	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
	printer "github.com/sqlfence/sqlfence/examples/libraries/xorm"
	after "github.com/sqlfence/sqlfence/examples/libraries/xorm/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/xorm/before"
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

// The other way, for programs that let xorm open the database by name.
func TestOnSQLiteByNameAlone(t *testing.T) {
	dialects.RegisterDriver("sqlfence-sqlite", dialects.QueryDriver("sqlite3"))
	byName := func(dsn string) (*xorm.Engine, error) { return xorm.NewEngine("sqlfence-sqlite", dsn) }
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite),
		After:  program(byName),
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

func program(open func(dsn string) (*xorm.Engine, error)) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		engine, err := open(dsn)
		if err != nil {
			return nil, err
		}
		s := printer.New(engine)
		if err := s.Migrate(ctx); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: engine, Operations: operations(s)}, nil
	}
}

func operations(s *printer.Shop) []repertoire.Operation {
	type ctx = context.Context
	return []repertoire.Operation{
		{Name: "create", Do: func(c ctx) (any, error) { return s.Install(c, "big", 100) }},
		{Name: "create with defaults", Do: func(c ctx) (any, error) { return s.Submit(c, "poster") }},
		{Name: "batch create", Do: func(c ctx) (any, error) {
			return s.Import(c, []printer.Job{{Title: "flyer", State: "queued", Pages: 30}, {Title: "book", State: "held", Pages: 300}})
		}},
		{Name: "upsert, inserting", Do: func(c ctx) (any, error) { return s.Refill(c, "small", 10) }},
		{Name: "upsert, updating", Do: func(c ctx) (any, error) { return s.Refill(c, "small", 10) }},
		{Name: "partial update with a version", Do: func(c ctx) (any, error) { return s.Print(c, "poster") }},
		{Name: "update by OR", Do: func(c ctx) (any, error) { return s.Route(c, "big", "queued", 200) }},
		{Name: "update by an expression", Do: func(c ctx) (any, error) { return s.Count(c, "big", 3) }},
		{Name: "nested transaction", Do: func(c ctx) (any, error) { return nil, s.Rush(c, "flyer") }},
		{Name: "prepared statements", Do: func(c ctx) (any, error) { return nil, s.Prepared(c, "big") }},
		{Name: "raw SQL with RETURNING", Do: func(c ctx) (any, error) { return s.Rename(c, "small", "tiny") }},
		{Name: "soft delete", Do: func(c ctx) (any, error) { return s.Cancel(c, "poster") }},
		{Name: "delete", Do: func(c ctx) (any, error) { return s.Purge(c) }},
		{Name: "reads", Read: true, Do: func(c ctx) (any, error) { return s.Queue(c) }},
		{Name: "a migration", Do: func(c ctx) (any, error) { return nil, s.AddColumn(c) }},
	}
}
