package mysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func second[T any](_ T, err error) error { return err }

// SPEC G1, at the driver: the takeover waits for a transaction with a guarded
// write, and whatever comes after it is refused, at every isolation level.
func TestG1NoStaleWriteAfterATakeover(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		ctx := w.With(drivertest.Current)
		for _, write := range []string{
			`UPDATE d SET v = 'late' WHERE id = 2`, `INSERT INTO d (id, v) VALUES (5, 'late')`, `INSERT INTO d (id, v) VALUES (5, 'late'), (6, 'late')`,
			`DELETE FROM d WHERE id = 999`, `INSERT INTO d (id, v) VALUES (2, 'late') ON DUPLICATE KEY UPDATE v = 'late'`,
		} {
			w.Reset()
			next := drivertest.Unknown
			next.Epoch = guardMark(t, w) + 1
			now := guard.With(t.Context(), guard.Token{Resource: next.Resource, Epoch: next.Epoch, Grant: next.Grant})
			w.Want("Advance", guard.NewFence(w.Bare, sqlgen.MySQL).Advance(t.Context(), next), nil)
			var early []*sql.Tx
			levels := []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
			for _, level := range levels[:3] { // a serializable one would hold the rows it has read
				tx, err := w.Fenced.BeginTx(now, &sql.TxOptions{Isolation: level})
				w.Want("BeginTx", err, nil)
				if err := tx.QueryRow(`SELECT count(*) FROM d`).Scan(new(int)); err != nil {
					t.Fatal(err)
				}
				early = append(early, tx)
			}
			writing := w.Begin(now, w.Fenced)
			w.Must(writing, `UPDATE d SET v = 'in time' WHERE id = 1`)
			moved := make(chan error, 1)
			next.Epoch++
			go func() { moved <- guard.NewFence(w.Bare, sqlgen.MySQL).Advance(context.Background(), next) }()
			waiting(t, w.Bare)
			select {
			case err := <-moved:
				t.Fatalf("the mark moved while a guarded transaction was open: %v", err)
			default:
			}
			w.Want("Commit", writing.Commit(), nil)
			w.Want("Advance", <-moved, nil)
			after := w.Table()
			for i, tx := range early {
				err := second(tx.Exec(write))
				if levels[i] == sql.LevelRepeatableRead && oldSnapshotsFail(w) {
					// A serialization failure, first; it ends the transaction.
					if commit := tx.Commit(); number(err) != 1020 || number(commit) != 1020 {
						t.Errorf("%v: %s: got error %v, and %v from Commit, want 1020", levels[i], write, err, commit)
					}
					tx, begin := w.Fenced.BeginTx(now, &sql.TxOptions{Isolation: levels[i]})
					w.Want("BeginTx again", begin, nil)
					w.Want(fmt.Sprint(levels[i], ", again: ", write), second(tx.Exec(write)), guard.ErrFenced)
					w.Want("Commit", tx.Commit(), guard.ErrFenced)
					continue
				}
				w.Want(fmt.Sprint(levels[i], ": ", write), err, guard.ErrFenced)
				w.Want("Commit", tx.Commit(), guard.ErrFenced)
			}
			w.Want("autocommit: "+write, second(w.Fenced.ExecContext(now, write)), guard.ErrFenced)
			if got := w.Table(); got != after {
				t.Errorf("%s: the table reads %q, want %q", write, got, after)
			}
		}
		w.Want("the first owner", second(w.Fenced.ExecContext(ctx, `DELETE FROM d`)), guard.ErrFenced)
	})
}

// oldSnapshotsFail tells whether the server refuses a locking read of what has changed
// since the snapshot with error 1020, as MariaDB does from 11.6 on by default.
func oldSnapshotsFail(w *drivertest.World) bool {
	var name, value string
	err := w.Bare.QueryRow(`SHOW VARIABLES LIKE 'innodb_snapshot_isolation'`).Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return false // MySQL, and MariaDB before 10.6.18
	}
	w.Want("innodb_snapshot_isolation", err, nil)
	return value == "ON"
}

func guardMark(t *testing.T, w *drivertest.World) int64 {
	t.Helper()
	mark, err := guard.NewFence(w.Bare, sqlgen.MySQL).HighWater(t.Context(), drivertest.Current.Resource)
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// waiting returns when somebody waits for a lock of InnoDB.
func waiting(t *testing.T, db *sql.DB) {
	t.Helper()
	var version string
	if err := db.QueryRow(`SELECT VERSION()`).Scan(&version); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		// Not innodb_trx: it stays as it is for as long as it is asked all the time.
		var name string
		var n int
		err := db.QueryRow(`SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'`).Scan(&name, &n)
		if err == nil && !strings.Contains(version, "MariaDB") {
			err = db.QueryRow(`SELECT COUNT(*) FROM performance_schema.data_locks WHERE lock_status = 'WAITING' AND object_schema = DATABASE()`).Scan(&n)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nobody waits")
}

// CASES D29: 0 changed rows are no refusal, whatever the driver counts.
func TestAffectedRows(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, found := range []bool{false, true} {
			db := like(t, w, func(c *gomysql.Config) { c.ClientFoundRows = found })
			for range 2 {
				res, err := db.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = 'same' WHERE id = ?`, 1)
				w.Want("valid", err, nil)
				n, err := res.RowsAffected()
				w.Want("RowsAffected", err, nil)
				same := w.Table() == "1 same 10|2 two 20|3 three 30"
				if !same || found && n != 1 {
					t.Errorf("clientFoundRows %v: %d rows, %s", found, n, w.Table())
				}
			}
			w.Want("stale", second(db.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'same' WHERE id = 1`)), guard.ErrFenced)
			w.Reset()
		}
	})
}

// A transaction may end without a word: by a definition, a deadlock, a text. What is
// checked first, in a transaction, must not rely on one that is gone.
func TestTransactionsThatHaveEndedByThemselves(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		const rows = `INSERT INTO d (id, v) VALUES (7, 'a'), (8, 'b')`
		for name, end := range map[string]string{
			"by a definition": `CREATE TABLE IF NOT EXISTS made (id INT)`,
			"by a text":       `COMMIT`,
			"by a procedure":  `CALL ends()`,
		} {
			w.Must(w.Bare, `DROP PROCEDURE IF EXISTS ends`)
			w.Must(w.Bare, `CREATE PROCEDURE ends() COMMIT`)
			tx := w.Begin(t.Context(), w.Fenced)
			w.Must(tx, `UPDATE d SET v = 'kept' WHERE id = 1`)
			w.Must(tx, end)
			_, err := tx.ExecContext(w.With(drivertest.Current), rows)
			w.Want(name+": rows", err, nil)
			// The rows are in a transaction of their own, and so durable now.
			if got := w.Table(); got != "1 kept 10|2 two 20|3 three 30|7 a 0|8 b 0" {
				t.Errorf("%s: the table reads %q", name, got)
			}
			w.Want("Rollback", tx.Rollback(), nil)
			w.Reset()
		}
	})
}

// A session without autocommit is always in a transaction: to begin one would
// commit it.
func TestWithoutAutocommit(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		db := like(t, w, func(c *gomysql.Config) { c.Params = map[string]string{"autocommit": "0"} })
		const rows = `INSERT INTO d (id, v) VALUES (7, 'a'), (8, 'b')`
		for _, text := range []string{rows, `INSERT INTO d (id, v) VALUES (7, 'a')`} {
			c := w.Conn(db)
			w.Must(c, `UPDATE d SET v = 'undone' WHERE id = 1`)
			w.Want(text, second(c.ExecContext(w.With(drivertest.Current), text)), nil)
			w.IsUntouched()
			w.Must(c, `ROLLBACK`)
			w.IsUntouched()
			w.Must(c, `UPDATE d SET v = 'undone' WHERE id = 1`)
			w.Want(text+", stale", second(c.ExecContext(w.With(drivertest.Stale), text)), guard.ErrFenced)
			w.Want("the next statement", second(c.ExecContext(t.Context(), `UPDATE d SET v = 'later' WHERE id = 2`)), guard.ErrFenced)
			w.Want("COMMIT", second(c.ExecContext(t.Context(), `COMMIT`)), guard.ErrFenced)
			w.IsUntouched()
			w.Must(c, `UPDATE d SET v = 'two' WHERE id = 2`)
			w.Must(c, `COMMIT`)
			w.Want("Close", c.Close(), nil)
			w.IsUntouched()
		}
	})
}

// SPEC G10: USE, temporary tables and names like ours change nothing.
func TestG10NoCapture(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		var name string
		w.Want("DATABASE", w.Bare.QueryRow(`SELECT DATABASE()`).Scan(&name), nil)
		evil := name[:50] + "_evil"
		w.Must(w.Bare, `CREATE DATABASE `+evil)
		defer w.Must(w.Bare, `DROP DATABASE `+evil)
		w.Must(w.Bare, `CREATE TABLE `+evil+`.sqlfence_guard (resource VARBINARY(255), high_water BIGINT, grant_id BIGINT, at DATETIME(6))`)
		w.Must(w.Bare, `INSERT INTO `+evil+`.sqlfence_guard VALUES ('job-42', 6, 60, NOW(6))`)
		w.Must(w.Bare, `CREATE TABLE `+evil+`.d (id INT PRIMARY KEY, v TEXT, n INT)`)
		for _, db := range []*sql.DB{w.Fenced, like(t, w, nil)} { // the name is known, or asked for
			c := w.Conn(db)
			w.Must(c, `USE `+evil)
			w.Want("in another database, stale", second(c.ExecContext(w.With(drivertest.Stale), `INSERT INTO d (id) VALUES (1)`)), guard.ErrFenced)
			w.Want("in another database", second(c.ExecContext(w.With(drivertest.Current), `REPLACE INTO d (id) VALUES (1)`)), nil)
			w.Want("rows, stale", second(c.ExecContext(w.With(drivertest.Stale), `INSERT INTO d (id) VALUES (2), (3)`)), guard.ErrFenced)
			w.Must(c, `USE `+name)
			w.Want("Close", c.Close(), nil)
		}
		c := w.Conn(w.Fenced)
		w.Must(under{c}, `CREATE TEMPORARY TABLE sqlfence_fences (resource VARBINARY(255) PRIMARY KEY, high_water BIGINT, grant_id BIGINT, advanced BOOLEAN)`)
		w.Must(c, `INSERT INTO sqlfence_fences VALUES ('job-42', 6, 60, FALSE)`)
		w.Want("beneath the view, stale", second(c.ExecContext(w.With(drivertest.Stale), `DELETE FROM d`)), guard.ErrFenced)
		w.Want("beneath the view", second(c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)), nil)
		w.Must(under{c}, `CREATE TEMPORARY TABLE sqlfence_guard (resource VARBINARY(255) PRIMARY KEY, high_water BIGINT, grant_id BIGINT, advanced BOOLEAN, at DATETIME(6))`)
		w.Must(c, `INSERT INTO sqlfence_guard VALUES ('job-42', 6, 60, FALSE, NOW(6))`)
		for _, text := range []string{`UPDATE d SET v = 'x'`, `DELETE FROM d`, `INSERT INTO d (id) VALUES (9)`, `INSERT INTO d (id) VALUES (9), (10)`} {
			if err := second(c.ExecContext(w.With(drivertest.Stale), text)); err == nil {
				t.Errorf("%s passed a fence that is hidden", text)
			}
			w.IsUntouched()
		}
		w.Must(c, `DROP TEMPORARY TABLE sqlfence_guard, sqlfence_fences`)
		w.Must(under{c}, `CREATE TEMPORARY TABLE sqlfence_g (resource INT, high_water INT, grant_id INT, at INT)`)
		w.Want("an alias of ours", second(c.ExecContext(w.With(drivertest.Stale), `UPDATE sqlfence_g SET at = 1`)), guard.ErrFenced)
		w.Want("an alias of ours", second(c.ExecContext(w.With(drivertest.Current), `UPDATE sqlfence_g SET at = 1`)), nil)
		w.Want("Close", c.Close(), nil)
	})
}

// under executes on the bare connection.
type under struct{ conn *sql.Conn }

func (u under) ExecContext(ctx context.Context, text string, _ ...any) (sql.Result, error) {
	return nil, u.conn.Raw(func(driverConn any) error {
		raw, _ := fence.Raw(driverConn)
		return second(raw.(driver.ExecerContext).ExecContext(ctx, text, nil))
	})
}

// A connection in no database has no fence.
func TestNoDatabase(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		var name string
		w.Want("DATABASE", w.Bare.QueryRow(`SELECT DATABASE()`).Scan(&name), nil)
		db := like(t, w, func(c *gomysql.Config) { c.DBName = "" })
		var s *guard.SetupError
		err := second(db.ExecContext(w.With(drivertest.Current), `UPDATE `+name+`.d SET v = 'x'`))
		if !errors.As(err, &s) || s.Remedy == "" {
			t.Errorf("got error %v, want a SetupError", err)
		}
		w.IsUntouched()
		w.Want("without a token", second(db.Exec(`UPDATE `+name+`.d SET v = v`)), nil)
	})
}

func TestTokensAreCheckedAtBegin(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		db := like(t, w, nil, fence.CheckAtBegin())
		db.SetMaxOpenConns(1)
		_, err := db.BeginTx(w.With(drivertest.Stale), nil)
		w.Want("BeginTx with a stale token", err, guard.ErrFenced)
		tx := w.Begin(w.With(drivertest.Current), db)
		w.Must(tx, `UPDATE d SET v = v`)
		w.Want("Commit", tx.Commit(), nil)
	})
}

// CASES D16, D17, SPEC G5: whatever a program sees is what it sees without the
// fence.
func TestComparedWithTheBareDriver(t *testing.T) {
	for _, server := range testserver.MySQL(t) {
		for name, change := range map[string]func(*gomysql.Config){
			"prepared":     unchanged,
			"interpolated": func(c *gomysql.Config) { c.InterpolateParams, c.ParseTime = true, true },
		} {
			t.Run(server.Engine+"_"+server.Version+", "+name, func(t *testing.T) {
				c := drivertest.MySQLComparison
				c.Brief = name != "prepared"
				drivertest.Compare(t, drivertest.NewWorld(t, on(server, change)), c)
			})
		}
	}
}
