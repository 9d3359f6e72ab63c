package postgres_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// CASES D20, SPEC G12: behind a pooler that gives each transaction whichever server
// connection is free, the verdicts are the same and nothing is left on it. The modes
// are those of pgx that such a pooler bears without a fence, too.
func TestBehindATransactionPooler(t *testing.T) {
	server := testserver.PostgreSQL(t)[0]
	for i, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheDescribe} {
		t.Run(mode.String(), func(t *testing.T) {
			e := on(nil)
			var direct *sql.DB
			e.New = func(t *testing.T) (fenced, bare *sql.DB) {
				dsn := server.Database(t)
				direct = open(t, "pgx", dsn)
				if err := guard.Migrate(t.Context(), direct, sqlgen.PostgreSQL); err != nil {
					t.Fatal(err)
				}
				c, err := pgx.ParseConfig(testserver.PgBouncer(t, dsn))
				if err != nil {
					t.Fatal(err)
				}
				c.DefaultQueryExecMode = mode
				fenced, bare = sql.OpenDB(postgres.WrapConnector(stdlib.GetConnector(*c))), sql.OpenDB(stdlib.GetConnector(*c))
				t.Cleanup(func() { _ = fenced.Close(); _ = bare.Close() })
				return fenced, bare
			}
			switch i {
			case 0:
				drivertest.EveryKind(t, e)
			case 1:
				drivertest.PoisonedTransaction(t, e)
			case 2:
				drivertest.FailClosed(t, e)
			}
			w := drivertest.NewWorld(t, e)
			for range 3 {
				tx := w.Begin(w.With(drivertest.Current), w.Fenced)
				w.Must(tx, `UPDATE d SET v = v`)
				w.Want("Commit", tx.Commit(), nil)
				_, err := w.Fenced.ExecContext(w.With(drivertest.Stale), `INSERT INTO d (id) VALUES (9)`)
				w.Want("stale", err, guard.ErrFenced)
				tx = w.Begin(w.With(drivertest.Stale), w.Fenced)
				_, err = tx.Exec(`DELETE FROM d`)
				w.Want("stale, in a transaction", err, guard.ErrFenced)
				w.Want("Rollback", tx.Rollback(), nil)
				_, err = w.Fenced.ExecContext(t.Context(), `UPDATE d SET v = v`)
				w.Want("the next client has no token", err, nil)
				leavesNothing(t, w, direct)
			}
			w.IsUntouched()
		})
	}
}

// leavesNothing fails the test if a server connection keeps anything of the fence.
func leavesNothing(t *testing.T, w *drivertest.World, direct *sql.DB) {
	t.Helper()
	var locks, open int
	w.Want("locks", direct.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&locks), nil)
	w.Want("transactions", direct.QueryRow(`SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND state LIKE 'idle in%'`).Scan(&open), nil)
	if locks != 0 || open != 0 {
		t.Errorf("%d advisory locks and %d open transactions are left", locks, open)
	}
	var passed, timeout string
	var statements int
	w.Want("settings", w.Bare.QueryRow(`SELECT coalesce(current_setting('sqlfence.passed', true), ''),
		current_setting('lock_timeout') || current_setting('idle_in_transaction_session_timeout') || current_setting('synchronous_commit'),
		(SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%sqlfence.pass%')`).Scan(&passed, &timeout, &statements), nil)
	if passed != "" || timeout != "00on" || statements != 0 {
		t.Errorf("settings %q, %q and %d prepared statements are left", passed, timeout, statements)
	}
}

// SPEC G7: an autocommit write under a token takes the wire as often as a bare one.
func TestRoundTripsOnTheWire(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		proxy, dsn := testserver.NewProxyDSN(t, config(t, w.Bare).ConnString())
		fenced, bare := open(t, postgres.DriverName, dsn), open(t, "pgx", dsn)
		turns := func(db *sql.DB, ctx context.Context, text string, args ...any) int64 {
			db.SetMaxOpenConns(1)
			for range 3 { // what is asked and prepared once
				w.Reset()
				if _, err := db.ExecContext(ctx, text, args...); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			w.Reset()
			before := proxy.Turns()
			if _, err := db.ExecContext(ctx, text, args...); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return proxy.Turns() - before
		}
		for _, x := range []struct {
			text string
			args []any
		}{
			{`UPDATE d SET v = $1 WHERE id = $2`, []any{"x", 1}}, {`UPDATE d SET v = v WHERE false`, nil}, {`DELETE FROM d`, nil},
			{`INSERT INTO d (id, v) VALUES ($1, $2)`, []any{7, "x"}}, {`INSERT INTO d (id) VALUES (7), (8)`, nil},
			{`INSERT INTO d (id) VALUES (1) ON CONFLICT DO NOTHING`, nil}, {`WITH x AS (DELETE FROM d RETURNING 1) SELECT count(*) FROM x`, nil},
		} {
			want := turns(bare, t.Context(), x.text, x.args...)
			for name, ctx := range map[string]context.Context{"no token": t.Context(), "a token": w.With(drivertest.Current), "two tokens": w.With(drivertest.Current, drivertest.Other)} {
				if got := turns(fenced, ctx, x.text, x.args...); got != want || want == 0 {
					t.Errorf("%s, %s: %d round trips, bare %d", x.text, name, got, want)
				}
			}
		}
	})
}
