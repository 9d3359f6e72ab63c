package sqlite_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// Definitions and the numbers that a migration counts up take part in SQLite's
// transactions: they are executed behind a check in the same one (CASES D23).
// The bare driver is the control.
func TestDefinitionsAreCheckedFirst(t *testing.T) {
	state := func(w *drivertest.World) string {
		var all []string
		for _, q := range []string{`SELECT group_concat(name || coalesce(sql, ''), ' ') FROM (SELECT * FROM sqlite_schema WHERE name NOT LIKE 'sqlfence%' ORDER BY name)`, `PRAGMA user_version`, `PRAGMA application_id`} {
			var s sql.NullString
			if err := w.Bare.QueryRow(q).Scan(&s); err != nil {
				w.T.Fatal(err)
			}
			all = append(all, s.String)
		}
		return strings.Join(all, "; ")
	}
	for _, text := range []string{
		`CREATE TABLE made (id)`, `CREATE TABLE made AS SELECT * FROM d`, `CREATE INDEX i ON d (v)`, `CREATE VIEW made AS SELECT 1`,
		`CREATE TRIGGER made AFTER INSERT ON d BEGIN DELETE FROM d WHERE v = 'x'; UPDATE d SET v = CASE WHEN 1 THEN 2 END WHERE 0; END`,
		`ALTER TABLE d ADD COLUMN added DEFAULT 5`, `DROP TABLE d`, `PRAGMA user_version = 5`, `PRAGMA application_id(7)`, `ANALYZE`,
	} {
		t.Run(text, func(t *testing.T) {
			w := drivertest.NewWorld(t, engine)
			untouched := state(w)
			_, err := w.Fenced.ExecContext(w.With(drivertest.Stale), text)
			w.Want("stale", err, guard.ErrFenced)
			tx := w.Begin(w.With(drivertest.Stale), w.Fenced)
			_, err = tx.Exec(text)
			w.Want("stale, in a transaction", err, guard.ErrFenced)
			w.Want("its commit", tx.Commit(), guard.ErrFenced)
			if got := state(w); got != untouched {
				t.Errorf("a stale token left %s, untouched is %s", got, untouched)
			}
			tx = w.Begin(w.With(drivertest.Current), w.Fenced)
			_, err = tx.Exec(text)
			w.Want("valid, in a transaction", errors.Join(err, tx.Rollback()), nil)
			_, err = w.Fenced.ExecContext(w.With(drivertest.Current), text)
			w.Want("valid", err, nil)
			control := drivertest.NewWorld(t, engine)
			control.Must(control.Bare, text)
			got, want := state(w), state(control)
			if got != want || got == untouched {
				t.Errorf("a valid token left %s, the bare driver %s", got, want)
			}
		})
	}
}
