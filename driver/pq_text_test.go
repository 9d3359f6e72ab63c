package driver_test

import (
	"database/sql"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// Whether a transaction is open behind texts that do not tell is asked of the server.
func severalStatementsAtOnce(t *testing.T, w *drivertest.World) {
	for _, text := range []string{`SELECT 1; SELECT 2`, `BEGIN; UPDATE d SET v = v; COMMIT`, `BEGIN; SELECT 1; ROLLBACK`} {
		c := w.Conn(w.Fenced)
		w.Must(c, text)
		w.Want("TRUNCATE, stale, behind "+text, execOn(w, c, drivertest.Stale, `TRUNCATE d`), guard.ErrFenced)
		w.IsUntouched()
		w.Must(c, `SELECT 1`)
		w.Must(c, text)
		w.Want("TRUNCATE behind "+text, execOn(w, c, drivertest.Current, `TRUNCATE d`), nil)
		if w.Table() != "" {
			t.Errorf("behind %s: TRUNCATE has not landed", text)
		}
		w.Reset()
		w.Must(c, text)
		w.Want("DO that commits, behind "+text, refused(execOn(w, c, drivertest.Current, `DO 'BEGIN DELETE FROM d; COMMIT; END'`)), nil)
		w.IsUntouched()
		w.Must(c, text)
		w.Want("UPDATE, stale, behind "+text, execOn(w, c, drivertest.Stale, `UPDATE d SET v = 'x'`), guard.ErrFenced)
		w.Must(c, `SELECT 1`) // no transaction was open, and there is nothing to end
		w.Want("Close", c.Close(), nil)
	}
	// The control: where one is open, it ends as ever.
	c := w.Conn(w.Fenced)
	w.Must(c, `BEGIN; SELECT 1`)
	w.Must(c, `UPDATE d SET v = 'x'`)
	w.Want("UPDATE, stale, in a transaction", execOn(w, c, drivertest.Stale, `UPDATE d SET v = 'x'`), guard.ErrFenced)
	w.Want("in it", execOn(w, c, drivertest.Current, `UPDATE d SET v = 'y'`), guard.ErrFenced)
	w.Want("COMMIT", execOn(w, c, drivertest.Current, `COMMIT`), guard.ErrFenced)
	w.Must(c, `SELECT 1`)
	w.Must(c, `BEGIN; SELECT 1`)
	w.Want("TRUNCATE in a transaction", execOn(w, c, drivertest.Current, `TRUNCATE d`), nil)
	w.Must(c, `ROLLBACK`)
	w.IsUntouched()
}

// A token ends with the transaction that a text has begun with it, however a text ends that.
func textsThatEndTransactions(t *testing.T, w *drivertest.World) {
	c := w.Conn(w.Fenced)
	for _, end := range []string{`COMMIT AND NO CHAIN`, `ROLLBACK /* CHAIN */`, `COMMIT -- unchained`, `COMMIT; SELECT 1`, `ROLLBACK; SELECT 1`} {
		w.Want("BEGIN", execOn(w, c, drivertest.Stale, `BEGIN`), nil)
		_, err := c.ExecContext(guard.Without(t.Context()), end)
		w.Want(end, err, nil)
		_, err = c.ExecContext(t.Context(), `UPDATE d SET v = v`)
		w.Want("behind "+end, err, nil)
	}
	// The controls: it goes on.
	for _, text := range []string{`COMMIT AND CHAIN`, `ROLLBACK WORK AND CHAIN`, `SELECT 1; SELECT 2`} {
		w.Want("BEGIN", execOn(w, c, drivertest.Stale, `BEGIN`), nil)
		_, err := c.ExecContext(guard.Without(t.Context()), text)
		w.Want(text, err, nil)
		_, err = c.ExecContext(t.Context(), `UPDATE d SET v = 'x'`)
		w.Want("behind "+text, err, guard.ErrFenced)
		_, err = c.ExecContext(t.Context(), `ROLLBACK`)
		w.Want("ROLLBACK", err, nil)
	}
	w.IsUntouched()
	drivertest.EndARefusedTransaction(t, w)
}

func execOn(w *drivertest.World, c *sql.Conn, token guard.Token, text string) error {
	_, err := c.ExecContext(w.With(token), text)
	return err
}

// refused returns nil for an error that the server has for what cannot run in a transaction.
func refused(err error) error {
	if guard.SQLState(err) == "2D000" {
		return nil
	}
	return err
}
