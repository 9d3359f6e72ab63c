package drivertest

import (
	"testing"

	"github.com/sqlfence/sqlfence/guard"
)

// EndARefusedTransaction: each text that ends a failed transaction on PostgreSQL ends one,
// begun by text, that the fence has refused.
func EndARefusedTransaction(t *testing.T, w *World) {
	for end, ends := range map[string]bool{
		`ROLLBACK`: true, `COMMIT`: true, `COMMIT AND NO CHAIN`: true, `ROLLBACK /* CHAIN */`: true, `ROLLBACK; SELECT 1`: true,
		`COMMIT; SELECT 1`: true, `PREPARE TRANSACTION 'x'`: true,
		`ROLLBACK AND CHAIN`: false, `COMMIT AND CHAIN`: false, `SELECT 1; ROLLBACK`: false, `ROLLBACK; BEGIN`: false, `COMMIT PREPARED 'x'`: false,
		`ROLLBACK TO a`: false, `ROLLBACK; COMMIT AND CHAIN`: false,
	} {
		c := w.Conn(w.Fenced)
		w.Must(c, `BEGIN`)
		w.Want("stale", second(c.ExecContext(w.With(Stale), `UPDATE d SET v = 'x'`)), guard.ErrFenced)
		w.Want("in it", second(c.ExecContext(t.Context(), `UPDATE d SET v = 'y'`)), guard.ErrFenced)
		want := guard.ErrFenced
		if ends && end[0] == 'R' && end != `ROLLBACK; SELECT 1` {
			want = nil
		}
		w.Want(end, second(c.ExecContext(t.Context(), end)), want)
		want = guard.ErrFenced
		if ends {
			want = nil
		}
		w.Want("behind "+end, second(c.ExecContext(t.Context(), `SELECT 1`)), want)
		if !ends {
			w.Must(c, `ROLLBACK`)
		}
		w.Want("Close", c.Close(), nil)
	}
	w.IsUntouched()
}
