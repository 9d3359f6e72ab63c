package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
)

// misread are texts that are reads, unless they were prepared under the setting.
var misread = map[string]struct{ set, reset, text string }{
	"standard_conforming_strings": {`SET standard_conforming_strings = off`, `SET standard_conforming_strings = on`,
		`WITH a AS (SELECT '\' AS x, ' AS y), b AS (DELETE FROM d RETURNING 1) SELECT 1 --' AS z) SELECT 1`},
	"client_encoding": {`SET client_encoding = 'SJIS'`, `SET client_encoding = 'UTF8'`,
		"WITH x AS (SELECT E'\x95\x5C'), y AS (DELETE FROM d RETURNING 1) SELECT 1 --') SELECT 1"},
}

// A prepared statement is executed as it was read when it was prepared, and pgx finds
// a text among those that are: SPEC G4, G9.
func TestAStatementPreparedUnderOtherSettings(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		stale := w.With(drivertest.Stale)
		for name, x := range misread {
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
				db := like(t, w, func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = mode })
				c := w.Conn(db)
				w.Must(c, x.set)
				s, err := c.PrepareContext(t.Context(), x.text)
				w.Want("Prepare", err, nil)
				w.Must(c, x.reset)

				// The control: to the server it is a write.
				w.Want("control", second(s.ExecContext(t.Context())), nil)
				if w.Table() != "" {
					t.Errorf("%s, %s: the control shows nothing", name, mode)
				}
				w.Reset()
				w.Want(name+", prepared", second(s.ExecContext(stale)), guard.ErrUnsupported)
				w.Want(name+", prepared, query", drained(s.QueryContext(stale)), guard.ErrUnsupported)
				w.Want(name+", found", second(c.ExecContext(stale, x.text)), guard.ErrUnsupported)
				w.Want(name+", found, query", drained(c.QueryContext(stale, x.text)), guard.ErrUnsupported)
				w.IsUntouched()
				w.Want(name+", plain", second(c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)), nil)
				w.Want("Close", s.Close(), nil)
				w.Want("Close", c.Close(), nil)
			}
		}
	})
}

// Texts that pgx prepares by itself, a rewriter's among them, and a connection that comes
// back from a pool of pgx's own.
func TestAStatementCachedUnderOtherSettings(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		stale, x := w.With(drivertest.Stale), misread["standard_conforming_strings"]
		config, err := pgxpool.ParseConfig(config(t, w.Bare).ConnString())
		w.Want("ParseConfig", err, nil)
		config.MaxConns = 1
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		w.Want("NewWithConfig", err, nil)
		defer pool.Close()
		for name, args := range map[string][]any{"a text": {x.text}, "a rewritten text": {`SELECT 1`, rewriter{text: x.text}}} {
			pooled := func(do func(c *sql.Conn)) {
				db := sql.OpenDB(postgres.WrapConnector(stdlib.GetPoolConnector(pool)))
				db.SetMaxIdleConns(0)
				c := w.Conn(db)
				do(c)
				w.Want("Close", c.Close(), nil)
				w.Want("Close", db.Close(), nil)
			}
			pooled(func(c *sql.Conn) {
				w.Must(c, x.set)
				w.Want(name, drained(c.QueryContext(t.Context(), args[0].(string), args[1:]...)), nil)
				w.Must(c, x.reset)
			})
			if w.Table() != "" {
				t.Errorf("%s: the control shows nothing", name)
			}
			w.Reset()
			pooled(func(c *sql.Conn) {
				w.Want(name, drained(c.QueryContext(stale, x.text)), guard.ErrUnsupported)
			})
			w.IsUntouched()
			pool.Reset()
		}
	})
}

// The settings alone forbid nothing for good: only a text that depends on them does.
func TestSettingsThatWereOtherwiseForAWhile(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		c := w.Conn(w.Fenced)
		for _, x := range misread {
			w.Must(c, x.set)
			w.Must(c, `UPDATE d SET v = v`)
			w.Must(c, x.reset)
		}
		w.Want("stale", second(c.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'C:\' WHERE id = 1`)), guard.ErrFenced)
		w.Want("current", second(c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = 'C:\' WHERE id = 1`)), nil)
		if got := w.Table(); got != `1 C:\ 10|2 two 20|3 three 30` {
			t.Errorf("the table reads %s", got)
		}
	})
}

func drained(rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}
