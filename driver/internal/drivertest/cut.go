package drivertest

import (
	"context"
	"database/sql"

	"github.com/sqlfence/sqlfence/guard"
)

// Line is a way to the world's database that can be cut.
type Line struct {
	DB           *sql.DB // guarded
	Cut, Restore func()

	// Acquire makes an owner hold the resource "cut" for an hour, through the line or
	// beside it, with nothing that renews. It returns the token and what gives it back.
	Acquire func(owner string, beside bool) (token guard.Token, release func(context.Context) error)

	Expire string // the statement that makes the lease expire
}

// WriteBeforeTheHeartbeat: a worker that was cut off from the database writes before
// its heartbeat has noticed anything (CASES D3). The database refuses it, and nothing
// in the process has to. lay makes a line.
func (w *World) WriteBeforeTheHeartbeat(lay func() Line) {
	w.T.Helper()
	for _, takenOver := range []bool{true, false} {
		w.Reset()
		line := lay()
		token, _ := line.Acquire("old", false)
		ctx := w.With(token)
		_, err := line.DB.ExecContext(ctx, `UPDATE d SET v = 'old' WHERE id = 1`)
		w.Want("before", err, nil)
		line.Cut()
		w.Must(w.Bare, line.Expire)
		var want error
		after := "1 late 10|2 two 20|3 three 30"
		if takenOver {
			want, after = guard.ErrFenced, "1 new 10|2 two 20|3 three 30"
			next, release := line.Acquire("new", true)
			_, err := w.Fenced.ExecContext(w.With(next), `UPDATE d SET v = 'new' WHERE id = 1`)
			w.Want("the new owner", err, nil)
			w.Want("Release", release(w.T.Context()), nil)
		}
		line.Restore()
		_, err = line.DB.ExecContext(ctx, `UPDATE d SET v = 'late' WHERE id = 1`)
		w.Want("autocommit", err, want)
		tx := w.Begin(ctx, line.DB)
		_, err = tx.Exec(`UPDATE d SET v = 'late' WHERE id = 1`)
		w.Want("in a transaction", err, want)
		w.Want("Commit", tx.Commit(), want)
		if got := w.Table(); got != after {
			w.T.Errorf("taken over %v: the table reads %q, want %q", takenOver, got, after)
		}
	}
}
