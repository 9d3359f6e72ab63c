package postgres_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// CASES D33: on a standby a read is the bare one, under a token too, and a write
// gets the server's own error, whatever the token: what is old there is no verdict.
func TestOnAStandby(t *testing.T) {
	primary := testserver.PrivatePostgreSQL(t)
	w := drivertest.NewWorld(t, on(func(*testing.T) string { return primary.DSN }))
	w.Want("Close", errors.Join(w.Fenced.Close(), w.Bare.Close()), nil) // for the copy the server stops
	standby := primary.Standby(t)
	fenced, bare := open(t, postgres.DriverName, standby.DSN), open(t, "pgx", standby.DSN)

	// sent returns the text that the server got, without what pgx does to it.
	sent := func(db *sql.DB, token guard.Token, text string) (got string) {
		w.Want(text, db.QueryRowContext(w.With(token), text).Scan(&got), nil)
		return got
	}
	const read = `SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid() AND EXISTS (SELECT FROM d) -- read`
	for name, token := range map[string]guard.Token{"current": drivertest.Current, "stale": drivertest.Stale, "unknown": drivertest.Unknown} {
		if got := sent(fenced, token, read); got != read {
			t.Errorf("a read under the %s token was sent as %q", name, got)
		}
		tx, err := fenced.BeginTx(w.With(token), &sql.TxOptions{ReadOnly: true})
		w.Want("BEGIN READ ONLY", err, nil)
		var n int
		w.Want("a read", tx.QueryRowContext(w.With(token), `SELECT count(*) FROM d`).Scan(&n), nil)
		w.Want("commit", tx.Commit(), nil)

		for _, text := range []string{
			`UPDATE d SET v = 'x'`, `INSERT INTO d (id) VALUES (9)`, `DELETE FROM d WHERE false`, `WITH x AS (DELETE FROM d RETURNING id) SELECT * FROM x`,
		} {
			want := second(bare.ExecContext(t.Context(), text))
			if err := second(fenced.ExecContext(w.With(token), text)); state(want) != "25006" || state(err) != "25006" || errors.Is(err, guard.ErrLost) {
				t.Errorf("%s under the %s token: %v; bare %v", text, name, err, want)
			}
		}
		// What is checked first is checked by the standby's own mark. If that is above
		// the token, then so is the primary's.
		for _, text := range []string{`TRUNCATE d`, `CREATE TABLE e (id int)`, `EXPLAIN ANALYZE UPDATE d SET v = 'x'`} {
			err := second(fenced.ExecContext(w.With(token), text))
			if token == drivertest.Stale {
				w.Want(text, err, guard.ErrFenced)
			} else if state(err) != "25006" || errors.Is(err, guard.ErrUnregistered) {
				t.Errorf("%s under the %s token: %v", text, name, err)
			}
		}
	}
	if err := guard.NewFence(bare, sqlgen.PostgreSQL).Advance(t.Context(), drivertest.Unknown); state(err) != "25006" {
		t.Errorf("Advance: %v", err)
	}
}

func state(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return ""
	}
	return pg.Code
}
