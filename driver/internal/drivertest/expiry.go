package drivertest

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
)

// UntilExpiry: with guard.UntilExpiry an owner whose lease has expired writes no more,
// also if nobody has taken over. behind opens the database of the world with a policy,
// acquire makes the resource held for an hour, and expire is that hour.
func UntilExpiry(t *testing.T, e Engine, behind func(*testing.T, *World, guard.Policy) *sql.DB, acquire func(w *World, resource string) guard.Token, expire func(w *World, resource string)) {
	w := NewWorld(t, e)
	p, err := guard.NewPolicy(guard.UntilExpiry())
	w.Want("NewPolicy", err, nil)
	db := behind(t, w, p)
	leased, second := acquire(w, "leased"), acquire(w, "second")
	texts := []string{
		`UPDATE d SET v = v WHERE id = 1`, `UPDATE d SET v = v WHERE id = 999`, `DELETE FROM d WHERE id = 999`,
		`INSERT INTO d (id, v) SELECT 9, 'x' FROM d WHERE id = 999`, `INSERT INTO d (id, v) VALUES (9, 'x')`,
	}
	undo := func() { w.Must(w.Bare, `DELETE FROM d WHERE id = 9`) }
	for _, text := range texts {
		_, err := db.ExecContext(w.With(leased), text)
		w.Want("held: "+text, err, nil)
		undo()
		_, err = db.ExecContext(w.With(leased, second), text)
		w.Want("both held: "+text, err, nil)
		undo()
	}
	w.IsUntouched()

	tx := w.Begin(w.With(leased), db)
	_, err = tx.Exec(w.SQL(`UPDATE d SET v = 'undone' WHERE id = $1`), 1)
	w.Want("held, in a transaction", err, nil)
	w.Want("Rollback", tx.Rollback(), nil)

	expire(w, "leased")
	for _, text := range texts {
		_, err := db.ExecContext(w.With(leased), text)
		var expired *guard.ExpiredError
		if !errors.Is(err, guard.ErrExpired) || !errors.Is(err, guard.ErrFenced) || !errors.Is(err, guard.ErrLost) || !errors.As(err, &expired) || expired.Token != leased {
			t.Errorf("expired: %s: got error %v", text, err)
		}
		_, err = db.ExecContext(w.With(leased, second), text)
		w.Want("one of two expired: "+text, err, guard.ErrExpired)
		_, err = db.ExecContext(w.With(second), text)
		w.Want("the other one: "+text, err, nil)
		undo()
		_, err = w.Fenced.ExecContext(w.With(leased), text)
		w.Want("expired, by default: "+text, err, nil)
		undo()
	}
	rows, err := db.QueryContext(w.With(leased), `DELETE FROM d WHERE id = 1`)
	if err == nil {
		rows.Close()
	}
	w.Want("expired, by Query", err, guard.ErrExpired)

	tx = w.Begin(w.With(leased), db)
	_, err = tx.Exec(`DELETE FROM d`)
	w.Want("expired, in a transaction", err, guard.ErrExpired)
	w.Want("Commit", tx.Commit(), guard.ErrExpired)

	_, err = db.ExecContext(w.With(Current), texts[0])
	w.Want("no lease here", err, guard.ErrSetup)
	_, err = db.ExecContext(w.With(Stale), texts[0])
	w.Want("stale", err, guard.ErrFenced)
	stolen := second
	stolen.Grant++
	_, err = db.ExecContext(w.With(stolen), texts[0])
	w.Want("of another grant", err, guard.ErrFenced)
	w.IsUntouched()
}
