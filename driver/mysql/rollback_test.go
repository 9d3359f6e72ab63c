package mysql_test

import (
	"context"
	"errors"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// SPEC G8: a deadlock ends the whole transaction. A program that overlooks the error
// must not go on without one.
func TestG8ATransactionThatTheServerRolledBackCannotCommit(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		token := w.With(drivertest.Current)
		for name, story := range map[string]struct{ begin, each context.Context }{
			"a transaction with a token": {token, t.Context()},
			"a statement with a token":   {t.Context(), token},
		} {
			w.Reset()
			tx := w.Begin(story.begin, w.Fenced)
			_, err := tx.ExecContext(story.each, `UPDATE d SET v = 'mine' WHERE id = 1`)
			w.Want("UPDATE", err, nil)
			// The other has changed more rows, so that this one is the victim.
			other := w.Begin(t.Context(), w.Bare)
			w.Must(other, `UPDATE d SET v = 'other' WHERE id > 1`)
			w.Must(other, `INSERT INTO d (id) VALUES (11), (12), (13), (14)`)
			waits := make(chan error, 1)
			go func() { waits <- second(other.Exec(`UPDATE d SET v = 'other' WHERE id = 1`)) }()
			waiting(t, w.Bare)
			err = tx.QueryRowContext(t.Context(), `SELECT id FROM d WHERE id = 2 FOR UPDATE`).Scan(new(int))
			if number(err) != 1213 {
				t.Fatalf("got error %v, want a deadlock", err)
			}
			w.Want("the other", <-waits, nil)
			w.Want("Rollback of the other", other.Rollback(), nil)
			for _, text := range []string{`UPDATE d SET v = 'late' WHERE id = 2`, `INSERT INTO d (id) VALUES (8), (9)`, `SELECT 1`} {
				if err := second(tx.ExecContext(token, text)); number(err) != 1213 {
					t.Errorf("%s: %s: got error %v, want the deadlock", name, text, err)
				}
			}
			if err := tx.Commit(); number(err) != 1213 {
				t.Errorf("%s: Commit: got error %v, want the deadlock", name, err)
			}
			w.IsUntouched()
			w.Want("afterwards", second(w.Fenced.ExecContext(token, `UPDATE d SET v = v`)), nil)
		}
	})
}

// A wait for a lock that was too long ends the statement alone, as on the bare driver.
func TestG5AWaitThatWasTooLongEndsTheStatement(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		db := like(t, w, func(c *gomysql.Config) { c.Params = map[string]string{"innodb_lock_wait_timeout": "1"} })
		other := w.Begin(t.Context(), w.Bare)
		w.Must(other, `UPDATE d SET v = 'other' WHERE id = 2`)
		tx := w.Begin(w.With(drivertest.Current), db)
		w.Must(tx, `UPDATE d SET v = 'mine' WHERE id = 1`)
		if err := second(tx.Exec(`UPDATE d SET v = 'mine' WHERE id = 2`)); number(err) != 1205 {
			t.Errorf("got error %v, want a timeout", err)
		}
		w.Want("Rollback of the other", other.Rollback(), nil)
		w.Must(tx, `UPDATE d SET v = 'after' WHERE id = 3`)
		w.Want("Commit", tx.Commit(), nil)
		if got := w.Table(); got != "1 mine 10|2 two 20|3 after 30" {
			t.Errorf("the table reads %q", got)
		}
		// And after a refusal, the connection is as good as new.
		tx = w.Begin(w.With(drivertest.Current), db)
		w.Want("stale", second(tx.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'x'`)), guard.ErrFenced)
		w.Want("Rollback", tx.Rollback(), nil)
	})
}

func number(err error) uint16 {
	var e *gomysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
