package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
)

// CASES D17: a connection that the server has closed while it was idle is replaced
// without a word, as by the bare driver, and the write is executed once.
func TestAConnectionThatWasClosedWhileIdle(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		control := w.Conn(like(t, w, nil))
		for name, use := range map[string]struct {
			db  *sql.DB
			ctx context.Context
		}{
			"bare": {w.Bare, t.Context()}, "no token": {w.Fenced, t.Context()}, "a token": {w.Fenced, w.With(drivertest.Current)},
		} {
			w.Want("Reset", second(control.ExecContext(t.Context(), `UPDATE d SET n = 0`)), nil)
			use.db.SetMaxOpenConns(1)
			var id int64
			w.Want("the connection", use.db.QueryRow(`SELECT CONNECTION_ID()`).Scan(&id), nil)
			w.Must(control, fmt.Sprint(`KILL `, id)) // MySQL 9.7 takes parameters in DML only
			for there := 1; there != 0; {
				w.Want("processlist", control.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?`, id).Scan(&there), nil)
			}
			w.Want(name, second(use.db.ExecContext(use.ctx, `UPDATE d SET n = n + 1`)), nil)
			var n int
			w.Want("n", control.QueryRowContext(t.Context(), `SELECT MAX(n) FROM d`).Scan(&n), nil)
			if n != 1 {
				t.Errorf("%s: executed %d times", name, n)
			}
		}
	})
}
