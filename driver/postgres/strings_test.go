package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// A backslash before a quote ends a plain string or not, as
// standard_conforming_strings says. The server tells its value with every
// change; each connection's own counts, and where it is off the text is refused.
func TestABackslashBeforeAQuote(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		valid, stale := w.With(drivertest.Current), w.With(drivertest.Stale)
		const path = `UPDATE d SET v = 'C:\dir\' WHERE id = 1`
		const landed = `1 C:\dir\ 10|2 two 20|3 three 30`
		on, off := w.Conn(w.Fenced), w.Conn(w.Fenced)
		w.Must(off, `SET standard_conforming_strings = off`)
		for range 3 { // also once it is cached
			w.Want("on, stale", second(on.ExecContext(stale, path)), guard.ErrFenced)
			w.IsUntouched()
			w.Want("on", second(on.ExecContext(valid, path)), nil)
			if got := w.Table(); got != landed {
				t.Errorf("the table reads %s, want %s", got, landed)
			}
			w.Reset()
			w.Want("off", second(off.ExecContext(valid, path)), guard.ErrUnsupported)
			w.IsUntouched()
		}

		// With the setting off, the server reads two statements where with it on
		// there is one, and the second of them has no guard.
		const hidden = `UPDATE d SET v = 'a\''; DELETE FROM d --'`
		bare := w.Conn(w.Bare)
		w.Must(bare, `SET standard_conforming_strings = off`)
		w.Must(bare, hidden, pgx.QueryExecModeSimpleProtocol)
		if got := w.Table(); got != "" {
			t.Errorf("the control shows nothing: the table reads %s", got)
		}
		w.Reset()
		w.Want("hidden, off", second(off.ExecContext(stale, hidden, pgx.QueryExecModeSimpleProtocol)), guard.ErrUnsupported)
		w.Want("hidden, on, stale", second(on.ExecContext(stale, hidden, pgx.QueryExecModeSimpleProtocol)), guard.ErrFenced)
		w.IsUntouched()
		w.Want("hidden, on", second(on.ExecContext(valid, hidden, pgx.QueryExecModeSimpleProtocol)), nil)
		if got := w.Table(); got != `1 a'; DELETE FROM d -- 10|2 a'; DELETE FROM d -- 20|3 a'; DELETE FROM d -- 30` &&
			got != `1 a\'; DELETE FROM d -- 10|2 a\'; DELETE FROM d -- 20|3 a\'; DELETE FROM d -- 30` {
			t.Errorf("the table reads %s", got)
		}
		w.Reset()

		// However it is changed.
		for _, change := range []string{`SELECT set_config('standard_conforming_strings', 'off', false)`, `DO $$ BEGIN SET standard_conforming_strings = off; END $$`} {
			w.Must(on, change)
			w.Want(change, second(on.ExecContext(valid, path)), guard.ErrUnsupported)
			w.Must(on, `RESET standard_conforming_strings`)
			w.Want("back on", second(on.ExecContext(stale, path)), guard.ErrFenced)
		}
		tx := w.Begin(valid, w.Fenced)
		w.Must(tx, `SET LOCAL standard_conforming_strings = off`)
		w.Want("SET LOCAL", second(tx.Exec(path)), guard.ErrUnsupported)
		w.Must(tx, `SET LOCAL standard_conforming_strings = on`)
		w.Want("and back", second(tx.Exec(path)), nil)
		w.Want("Rollback", tx.Rollback(), nil)
		started := like(t, w, func(c *pgx.ConnConfig) { c.RuntimeParams["standard_conforming_strings"] = "off" })
		w.Want("off from the start", second(started.ExecContext(valid, path)), guard.ErrUnsupported)
		w.IsUntouched()

		// Prepared while it was on, executed when it is off.
		s, err := on.PrepareContext(t.Context(), path)
		w.Want("Prepare", err, nil)
		defer func(s *sql.Stmt) { _ = s.Close() }(s)
		w.Must(on, `SET standard_conforming_strings = off`)
		w.Want("prepared", second(s.ExecContext(valid)), guard.ErrUnsupported)
		w.Must(on, `RESET standard_conforming_strings`)
		w.Want("prepared, on, stale", second(s.ExecContext(stale)), guard.ErrFenced)
		w.Want("prepared, on", second(s.ExecContext(valid)), nil)
		if got := w.Table(); got != landed {
			t.Errorf("the table reads %s, want %s", got, landed)
		}
	})
}
