package mysql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/internal/testserver"
)

// SPEC G8: each error with which the server ends the whole transaction. A trigger raises
// them, because most need a server or an accident that is not to be had; it leaves the
// transaction open, so that what is committed would show.
func TestG8EveryErrorThatEndsTheTransactionIsKept(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `CREATE TABLE raises (number INT)`)
		w.Must(w.Bare, `CREATE TRIGGER raises BEFORE INSERT ON raises FOR EACH ROW SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = NEW.number, MESSAGE_TEXT = 'raised'`)
		token := w.With(drivertest.Current)
		for _, lost := range []uint16{1213, 1020, 1467, 1206, 1402, 1613, 1614, 3101} {
			for _, raise := range []func(tx *sql.Tx) error{
				func(tx *sql.Tx) error {
					return second(tx.ExecContext(token, fmt.Sprintf(`INSERT INTO raises VALUES (%d)`, lost)))
				},
				func(tx *sql.Tx) error {
					return second(tx.ExecContext(t.Context(), `INSERT INTO raises VALUES (?)`, lost))
				},
				func(tx *sql.Tx) error {
					s, err := tx.PrepareContext(t.Context(), `INSERT INTO raises VALUES (?)`)
					w.Want("Prepare", err, nil)
					defer s.Close()
					return second(s.ExecContext(t.Context(), lost))
				},
			} {
				tx := w.Begin(t.Context(), w.Fenced)
				_, err := tx.ExecContext(token, `UPDATE d SET v = 'mine' WHERE id = 1`)
				w.Want("UPDATE", err, nil)
				if err := raise(tx); number(err) != lost {
					t.Fatalf("got error %v, want %d", err, lost)
				}
				for _, text := range []string{`UPDATE d SET v = 'late' WHERE id = 2`, `SELECT 1`} {
					if err := second(tx.ExecContext(t.Context(), text)); number(err) != lost {
						t.Errorf("%d: %s: got error %v", lost, text, err)
					}
				}
				if err := tx.Commit(); number(err) != lost {
					t.Errorf("%d: Commit: got error %v", lost, err)
				}
				w.IsUntouched()
				// A transaction with no guarded write is its program's own affair.
				tx = w.Begin(t.Context(), w.Fenced)
				_ = raise(tx)
				w.Want("without a guarded write", tx.Rollback(), nil)
			}
		}
		// The control: an error of the statement alone.
		tx := w.Begin(t.Context(), w.Fenced)
		_, err := tx.ExecContext(token, `UPDATE d SET v = 'mine' WHERE id = 1`)
		w.Want("UPDATE", err, nil)
		if err := second(tx.Exec(`INSERT INTO raises VALUES (1062)`)); number(err) != 1062 {
			t.Errorf("got error %v, want 1062", err)
		}
		w.Want("Commit", tx.Commit(), nil)
		if got := w.Table(); got != "1 mine 10|2 two 20|3 three 30" {
			t.Errorf("the table reads %q", got)
		}
	})
}

// Error 1020 as the server has it: a row has changed since the snapshot.
func TestG8ASnapshotThatIsTooOld(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		var name, value string
		if err := w.Bare.QueryRow(`SHOW VARIABLES LIKE 'innodb_snapshot_isolation'`).Scan(&name, &value); errors.Is(err, sql.ErrNoRows) {
			return // MySQL, and MariaDB before 10.6.18, always read on
		}
		db := like(t, w, func(c *gomysql.Config) { c.Params = map[string]string{"innodb_snapshot_isolation": "1"} })
		tx := w.Begin(w.With(drivertest.Current), db)
		w.Must(tx, `UPDATE d SET v = 'mine' WHERE id = 1`)
		w.Want("the snapshot", tx.QueryRow(`SELECT COUNT(*) FROM d`).Scan(new(int)), nil)
		w.Must(w.Bare, `UPDATE d SET v = 'theirs' WHERE id = 2`)
		if err := second(tx.Exec(`UPDATE d SET v = 'mine' WHERE id = 2`)); number(err) != 1020 {
			t.Fatalf("got error %v, want 1020", err)
		}
		if err := second(tx.Exec(`UPDATE d SET v = 'late' WHERE id = 3`)); number(err) != 1020 {
			t.Errorf("the next statement: got error %v, want 1020", err)
		}
		if err := tx.Commit(); number(err) != 1020 {
			t.Errorf("Commit: got error %v, want 1020", err)
		}
		if got := w.Table(); got != "1 one 10|2 theirs 20|3 three 30" {
			t.Errorf("the table reads %q", got)
		}
	})
}

// With innodb_rollback_on_timeout a wait for a lock that was too long ends the whole
// transaction, and the driver finds out that it is gone.
func TestG8AWaitThatEndsTheTransaction(t *testing.T) {
	server := testserver.PrivateMySQL(t, "innodb_rollback_on_timeout=ON", "innodb_lock_wait_timeout=1")
	w := drivertest.NewWorld(t, on(server.Server, unchanged))
	other := w.Begin(t.Context(), w.Bare)
	w.Must(other, `UPDATE d SET v = 'other' WHERE id = 2`)
	tx := w.Begin(w.With(drivertest.Current), w.Fenced)
	w.Must(tx, `UPDATE d SET v = 'mine' WHERE id = 1`)
	if err := second(tx.Exec(`UPDATE d SET v = 'mine' WHERE id = 2`)); number(err) != 1205 {
		t.Fatalf("got error %v, want a timeout", err)
	}
	w.Want("Rollback of the other", other.Rollback(), nil)
	for _, text := range []string{`UPDATE d SET v = 'late' WHERE id = 3`, `INSERT INTO d (id) VALUES (8), (9)`, `SELECT 1`} {
		if err := second(tx.Exec(text)); number(err) != 1205 {
			t.Errorf("%s: got error %v, want the timeout", text, err)
		}
	}
	if err := tx.Commit(); number(err) != 1205 {
		t.Errorf("Commit: got error %v, want the timeout", err)
	}
	w.IsUntouched()
	w.Want("afterwards", second(w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)), nil)
}
