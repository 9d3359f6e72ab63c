package mysql_test

import (
	"database/sql"
	"flag"
	"strings"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
)

var roundsFlag = flag.Int("rounds", 20, "rounds of the test of the lock order")

func atBegin(t *testing.T, w *drivertest.World) *sql.DB { return like(t, w, nil, fence.CheckAtBegin()) }

// CASES D31.
func TestTheFenceBeforeTheDataNeverDeadlocks(t *testing.T) {
	for _, server := range testserver.MySQL(t) {
		drivertest.LockOrder(t, on(server, unchanged), atBegin, *roundsFlag)
	}
}

func TestADeadlockIsToldAsOne(t *testing.T) {
	for _, server := range testserver.MySQL(t) {
		drivertest.WrongOrder(t, on(server, unchanged), waiting)
	}
}

// CASES D32 (a): no verdict depends on what the server's messages say.
func TestVerdictsDoNotDependOnTheLanguageOfTheServer(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		abroad := func(c *gomysql.Config) { c.Params = map[string]string{"lc_messages": "'de_DE'"} }
		db := like(t, w, abroad)
		valid, stale, unknown := w.With(drivertest.Current), w.With(drivertest.Stale), w.With(drivertest.Unknown)
		if err := second(db.ExecContext(valid, `UPDATE missing SET id = 1`)); number(err) != 1146 || !strings.Contains(err.Error(), "existiert nicht") {
			t.Fatalf("the server speaks no German: %v", err)
		}
		for _, text := range []string{`UPDATE d SET v = 'x'`, `DELETE FROM d WHERE 1 = 0`, `INSERT INTO d (id) VALUES (1)`, `INSERT INTO d (id) VALUES (8), (9)`, twoRows,
			`REPLACE INTO d (id) VALUES (1)`, `INSERT INTO d (id) VALUES (1) ON DUPLICATE KEY UPDATE v = 'x'`} {
			w.Want("stale: "+text, second(db.ExecContext(stale, text)), guard.ErrFenced)
			w.Want("unknown: "+text, second(db.ExecContext(unknown, text)), guard.ErrUnregistered)
			tx := w.Begin(valid, db)
			w.Must(tx, `UPDATE d SET v = 'x' WHERE id = 1`)
			w.Want("in a transaction: "+text, second(tx.ExecContext(stale, text)), guard.ErrFenced)
			w.Want("Commit", tx.Commit(), guard.ErrFenced)
			w.IsUntouched()
		}
		for text, want := range map[string]uint16{`INSERT INTO d (id) VALUES (1)`: 1062, `UPDATE d SET nope = 1`: 1054, `INSERT INTO d (id) VALUES ((SELECT id FROM d AS x))`: 1242} {
			if err := second(db.ExecContext(valid, text)); number(err) != want {
				t.Errorf("%s: got error %v, want %d", text, err, want)
			}
		}
		w.Must(w.Bare, `DROP VIEW sqlfence_guard`)
		w.Want("without the schema", second(db.ExecContext(valid, `UPDATE d SET v = v`)), guard.ErrSetup)
		w.Must(w.Bare, `DROP VIEW sqlfence_schema`)
		w.Want("without the schema, by a new program", second(like(t, w, abroad).ExecContext(valid, `UPDATE d SET v = v`)), guard.ErrSetup)
	})
}
