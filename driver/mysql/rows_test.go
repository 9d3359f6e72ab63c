package mysql_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// TestGuardedRowsWaitForNoTable: a guarded INSERT that waits for the key of another
// one does not make third ones wait, nor the one that it waits for (SPEC G5). The
// control is the same as a query, which holds the table's AUTO-INC lock meanwhile.
func TestGuardedRowsWaitForNoTable(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		ctx := w.With(drivertest.Current)
		var mode int // 2, the default of MySQL, knows no such lock
		w.Want("the mode", w.Bare.QueryRow(`SELECT @@innodb_autoinc_lock_mode`).Scan(&mode), nil)
		for _, c := range []struct {
			name   string
			db     *sql.DB
			insert string
			waits  bool
		}{
			{"bare", w.Bare, `INSERT INTO a (k) VALUES (?)`, false},
			{"guarded", w.Fenced, `INSERT INTO a (k) VALUES (?)`, false},
			{"guarded, several rows", w.Fenced, `INSERT INTO a (k) VALUES (?), (RAND() * 1000000 + 1000)`, false},
			{"guarded, an upsert", w.Fenced, `INSERT INTO a SET k = ? ON DUPLICATE KEY UPDATE k = VALUES(k) + 10`, false},
			{"guarded, a query", w.Fenced, `INSERT INTO a (k) SELECT ?`, mode < 2},
		} {
			w.Must(w.Bare, `DROP TABLE IF EXISTS a`)
			w.Must(w.Bare, `CREATE TABLE a (id BIGINT AUTO_INCREMENT PRIMARY KEY, k INT UNIQUE)`)
			first := w.Begin(ctx, c.db)
			w.Want(c.name, second(first.Exec(c.insert, 1)), nil)
			blocked := make(chan error, 1)
			go func() { blocked <- second(c.db.ExecContext(ctx, c.insert, 1)) }()
			waiting(t, w.Bare)
			third := w.Conn(w.Bare)
			w.Must(third, `SET innodb_lock_wait_timeout = 1`)
			err := second(third.ExecContext(t.Context(), `INSERT INTO a (k) SELECT 50`))
			if (err != nil) != c.waits {
				t.Errorf("%s: a third INSERT, while one waits for a key: %v", c.name, err)
			}
			if !c.waits {
				w.Want(c.name+": another in the first transaction", second(first.Exec(c.insert, 2)), nil)
			}
			w.Want("Rollback", first.Rollback(), nil)
			w.Want(c.name+": the one that has waited", <-blocked, nil)
		}
	})
}

// TestRefusedRows: listed rows are refused by an error of the server, in every
// shape and on every road, before any trigger has run.
func TestRefusedRows(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		// A number that a statement has drawn is not given back when it fails, and MyISAM,
		// which would keep the row, is refused in transactions where GTIDs are consistent.
		w.Must(w.Bare, `CREATE TABLE seen (id BIGINT AUTO_INCREMENT PRIMARY KEY, v TEXT)`)
		w.Must(w.Bare, `CREATE TRIGGER d_ins BEFORE INSERT ON d FOR EACH ROW INSERT INTO seen (v) VALUES (NEW.v)`)
		ran := func() int64 {
			res, err := w.Bare.Exec(`INSERT INTO seen (v) VALUES ('a probe')`)
			w.Want("a probe", err, nil)
			id, err := res.LastInsertId()
			w.Want("LastInsertId", err, nil)
			return id
		}
		for _, text := range []string{
			`INSERT INTO d (id, v) VALUES (5, 'x')`, `INSERT INTO d (id, v) VALUES (5, 'x'), (6, 'y')`, `REPLACE d (id, v) VALUES (1, 'x'), (2, 'y')`,
			`INSERT INTO d SET v = CONCAT('a', 'b'), id = 5`, `INSERT INTO d (id, v) VALUES (1, 'x') ON DUPLICATE KEY UPDATE v = VALUES(v)`, `INSERT INTO d (id, v) VALUES (1, 'a key that is there')`,
			`INSERT INTO d (id, v) VALUES (5, 'x'), (6, 'y') RETURNING id`, `INSERT INTO d (id, v) VALUES (1, 'x') AS new ON DUPLICATE KEY UPDATE v = new.v`,
		} {
			if strings.Contains(text, map[bool]string{true: "RETURNING", false: "AS new"}[w.Engine.NoReturning]) {
				continue // MySQL knows the one, MariaDB the other
			}
			for _, token := range []guard.Token{drivertest.Stale, drivertest.Rival, drivertest.Unknown} {
				ctx := w.With(token)
				want := guard.ErrFenced
				if token == drivertest.Unknown {
					want = guard.ErrUnregistered
				}
				w.Want(text, second(w.Fenced.ExecContext(ctx, text)), want)
				w.Want("queried: "+text, w.Fenced.QueryRowContext(ctx, text).Scan(new(int)), want)
				rows, err := w.Fenced.QueryContext(ctx, text)
				if err == nil {
					err = rows.Close()
					if err == nil {
						err = rows.Err()
					}
				}
				w.Want("not read: "+text, err, want)
				tx := w.Begin(context.Background(), w.Fenced)
				w.Must(tx, `UPDATE d SET v = 'before' WHERE id = 3`)
				w.Want("in a transaction: "+text, second(tx.ExecContext(ctx, text)), want)
				w.Want("Commit behind "+text, tx.Commit(), want)
				w.IsUntouched()
			}
		}
		if n := ran(); n != 1 {
			t.Errorf("the trigger has run for %d refused rows", n-1)
		}
		w.Want("the control", second(w.Fenced.ExecContext(w.With(drivertest.Current), `INSERT INTO d (id, v) VALUES (5, 'x'), (6, 'y')`)), nil)
		if n := ran(); n != 4 {
			t.Errorf("the trigger has run for %d accepted rows, want 2", n-2)
		}
		if err := second(w.Bare.Exec(`INSERT INTO d (id, v) VALUES (7, 'z'), (5, 'again')`)); number(err) != 1062 {
			t.Errorf("got error %v, want 1062", err)
		}
		if n := ran(); n != 7 {
			t.Errorf("the trigger has run for %d rows of a statement that failed, want 2", n-5)
		}
	})
}

// TestAnErrorLikeThatOfTheFence: a sub-select of the program's own with several rows
// is what it is, and ends no transaction.
func TestAnErrorLikeThatOfTheFence(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		ctx := w.With(drivertest.Current)
		tx := w.Begin(ctx, w.Fenced)
		w.Must(tx, `INSERT INTO d (id, v) VALUES (5, 'x')`)
		for _, text := range []string{`INSERT INTO d (id, v) VALUES (6, (SELECT v FROM d AS o))`, `UPDATE d SET v = (SELECT 1 UNION SELECT 2)`} {
			if _, err := tx.Exec(text); guard.ServerNumber(err) != 1242 || strings.Contains(err.Error(), "sqlfence") {
				t.Errorf("%s: %v", text, err)
			}
		}
		w.Want("Commit", tx.Commit(), nil)
		if got := w.Table(); got != drivertest.Untouched+"|5 x 0" {
			t.Errorf("the table reads %q", got)
		}
	})
}
