package mysql_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// wantUnsupported reports an err that is no refusal of the statement as such.
func wantUnsupported(t *testing.T, what string, err error) {
	t.Helper()
	var u *guard.UnsupportedError
	if !errors.As(err, &u) || u.Advice == "" {
		t.Errorf("%s: got error %v, want an UnsupportedError", what, err)
	}
}

// SPEC G1: XA PREPARE lets go of the shared lock on the fence, so that a takeover
// would return before XA COMMIT lands the write.
func TestG1NoGuardedWriteInAnXATransaction(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		ctx := w.With(drivertest.Current)
		w.Must(w.Bare, `DROP PROCEDURE IF EXISTS begins`)
		w.Must(w.Bare, `CREATE PROCEDURE begins() XA START 'a'`)
		begun := map[string]func(c *sql.Conn){
			"by a text":             func(c *sql.Conn) { w.Must(c, `XA START 'a'`) },
			"by a text, annotated":  func(c *sql.Conn) { w.Must(c, `/* x */ xa begin 'a'`) },
			"by a procedure":        func(c *sql.Conn) { w.Must(c, `CALL begins()`) },
			"by a statement within": func(c *sql.Conn) { w.Must(c, `EXECUTE IMMEDIATE 'XA START ''a'''`) },
			"prepared": func(c *sql.Conn) {
				s, err := c.PrepareContext(t.Context(), `XA START 'a'`)
				w.Want("Prepare", err, nil)
				_, err = s.Exec()
				w.Want("Exec", err, nil)
				w.Want("Close", s.Close(), nil)
			},
			"below the driver": func(c *sql.Conn) {
				w.Want("Raw", c.Raw(func(driverConn any) error {
					raw, _ := fence.Raw(driverConn)
					return second(raw.(driver.ExecerContext).ExecContext(t.Context(), `XA START 'a'`, nil))
				}), nil)
			},
		}
		if w.Engine.NoReturning { // MySQL takes XA by no prepared statement, error 1295
			delete(begun, "by a statement within")
			delete(begun, "prepared")
		}
		for how, begin := range begun {
			c := w.Conn(w.Fenced)
			begin(c)
			for _, text := range []string{
				`UPDATE d SET v = 'x' WHERE id = 1`, `INSERT INTO d (id) VALUES (8), (9)`, `SELECT 1; UPDATE d SET v = 'x'`, `CALL begins()`,
			} {
				wantUnsupported(t, how+": "+text, second(c.ExecContext(ctx, text)))
			}
			for _, text := range []string{`XA PREPARE 'a'`, `XA COMMIT 'a'`, `XA COMMIT 'a' ONE PHASE`, `XA START 'b'`, `XA BEGIN 'b'`} {
				wantUnsupported(t, how+": "+text, second(c.ExecContext(ctx, text)))
			}
			// It is the program's own as ever, and the takeover waits for nobody.
			w.Must(c, `UPDATE d SET v = 'two-phase' WHERE id = 2`)
			w.Must(c, `XA END 'a'`)
			w.Must(c, `XA PREPARE 'a'`)
			next := drivertest.Current
			w.Want("Advance", guard.NewFence(w.Bare, sqlgen.MySQL).Advance(t.Context(), next), nil)
			w.Must(c, `XA COMMIT 'a'`)
			w.Want("after it", second(c.ExecContext(ctx, `UPDATE d SET v = 'two' WHERE id = 2`)), nil)
			w.Want("after it, rows", second(c.ExecContext(ctx, `INSERT INTO d (id) VALUES (8), (9)`)), nil)
			w.Want("after it, stale", second(c.ExecContext(w.With(drivertest.Stale), `DELETE FROM d WHERE id > 3`)), guard.ErrFenced)
			w.Want("after it", second(c.ExecContext(ctx, `DELETE FROM d WHERE id > 3`)), nil)
			w.IsUntouched()
			w.Want("Close", c.Close(), nil)
		}
	})
}
