package tickets_test

import (
	"context"
	"database/sql"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	tickets "github.com/sqlfence/sqlfence/examples/libraries/migrate"
	after "github.com/sqlfence/sqlfence/examples/libraries/migrate/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/migrate/before"
	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
)

type opener func(dsn string) (*sql.DB, error)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, tickets.PostgreSQL),
		After:  program(after.OpenPostgreSQL, tickets.PostgreSQL),
	})
}

func TestOnSQLite(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite, tickets.SQLite),
		After:  program(after.OpenSQLite, tickets.SQLite),
	})
}

func TestOnMariaDB(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.MariaDB,
		Before: program(several(before.OpenMariaDB), tickets.MariaDB),
		After:  program(several(after.OpenMariaDB), tickets.MariaDB),
	})
}

// several adds the parameter that golang-migrate demands of MySQL's DSNs.
func several(open opener) opener {
	return func(dsn string) (*sql.DB, error) {
		c, err := gomysql.ParseDSN(dsn)
		if err != nil {
			return nil, err
		}
		c.MultiStatements = true
		return open(c.FormatDSN())
	}
}

// program opens the office with all migrations, which run without a token.
func program(open opener, kind tickets.Kind) func(context.Context, string) (*repertoire.Program, error) {
	return func(_ context.Context, dsn string) (*repertoire.Program, error) {
		first, err := open(dsn)
		if err != nil {
			return nil, err
		}
		if err := tickets.Migrate(first, kind); err != nil {
			return nil, err
		}
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: db, Operations: operations(tickets.New(db, kind))}, nil
	}
}

func operations(o *tickets.Office) []repertoire.Operation {
	type ctx = context.Context
	return []repertoire.Operation{
		{Name: "update", Do: func(c ctx) (any, error) { return o.Sell(c, "1b") }},
		{Name: "delete", Do: func(c ctx) (any, error) { return o.Refund(c) }},
	}
}
