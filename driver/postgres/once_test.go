package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
)

// CASES D33: the fence is asked once for each statement, and not for each row.
func TestTheFenceIsAskedOncePerStatement(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `INSERT INTO d (id, v) SELECT g, 'many' FROM generate_series(100, 5000) AS g`)
		for _, text := range []string{
			`UPDATE d SET n = n + 1`, `UPDATE d SET n = n + 1 WHERE id > 100 OR v = 'one'`, `INSERT INTO d (id) SELECT id + 10000 FROM d WHERE id < 6000`,
			`DELETE FROM d WHERE id > 10000`, `WITH x AS (UPDATE d SET n = n + 1 RETURNING id) SELECT count(*) FROM x`,
			`UPDATE d SET v = e.v FROM d AS e WHERE e.id = d.id`,
		} {
			c := w.Conn(w.Fenced)
			w.Must(c, `SET track_functions = 'all'`)
			w.Must(c, `BEGIN`)
			calls := func() (n int) { // those of transactions not yet reported included
				w.Want("calls", c.QueryRowContext(t.Context(), `SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions
					WHERE schemaname = 'sqlfence' AND funcname = 'pass'`).Scan(&n), nil)
				return n
			}
			before := calls()
			res, err := c.ExecContext(w.With(drivertest.Current), text)
			w.Want(text, err, nil)
			if n, _ := res.RowsAffected(); n == 0 {
				t.Errorf("%s: 0 rows", text)
			}
			if n := calls() - before; n != 1 {
				t.Errorf("%s: the fence was asked %d times", text, n)
			}
			w.Must(c, `COMMIT`)
			w.Must(c, `RESET track_functions`)
			w.Want("Close", c.Close(), nil)
		}
	})
}

// CASES D33: guarded writers of one resource lock no row of the fence, so that it is
// under no MultiXact, and what each leaves on it is nothing. Under the stricter
// levels they do, and must: the control.
func TestWritersOfOneResourceShareNoMultiXact(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		ctx := w.With(drivertest.Current)
		lockers := func(level sql.IsolationLevel) (multi bool) {
			for id := range 2 {
				tx, err := w.Fenced.BeginTx(ctx, &sql.TxOptions{Isolation: level})
				w.Want("BEGIN", err, nil)
				defer tx.Rollback()
				w.Want("a write", second(tx.ExecContext(ctx, `INSERT INTO d (id) VALUES ($1)`, 100+id)), nil)
			}
			var xmax string
			w.Want("xmax", w.Bare.QueryRow(`SELECT xmax FROM sqlfence.fences WHERE resource = $1`, drivertest.Current.Resource).Scan(&xmax), nil)
			var members int
			if xmax != "0" {
				w.Want("members", w.Bare.QueryRow(`SELECT count(*) FROM pg_get_multixact_members($1)`, xmax).Scan(&members), nil)
			}
			return members > 1
		}
		if lockers(sql.LevelReadCommitted) {
			t.Error("two guarded writers share a MultiXact")
		}
		if !lockers(sql.LevelRepeatableRead) {
			t.Error("under REPEATABLE READ they share none: the test is about nothing")
		}
	})
}
