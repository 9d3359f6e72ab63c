package mysql_test

import (
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// SPEC G10: a temporary table that makes up its rows as the fence has them would
// open it. None can be made through the driver, under a token or not.
func TestG10NoTableThatHidesTheFence(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		c := w.Conn(w.Fenced)
		mine := `CREATE TEMPORARY TABLE mine (resource VARBINARY(255), high_water BIGINT, grant_id BIGINT, at DATETIME(6) AS (NOW(6)) VIRTUAL)`
		if w.Engine.NoReturning { // MySQL has no such columns
			if err := second(c.ExecContext(t.Context(), mine)); guard.ServerNumber(err) != 3763 {
				t.Errorf("%s: %v", mine, err)
			}
			mine = strings.ReplaceAll(mine, " AS (NOW(6)) VIRTUAL", "")
		}
		w.Must(c, mine)
		w.Must(c, `INSERT INTO mine (resource, high_water, grant_id) VALUES ('job-42', 6, 60)`)
		for _, text := range []string{
			"CREATE TEMPORARY TABLE sqlfence_guard AS SELECT * FROM mine",
			"create or replace temporary/* x */table If Not Exists `SQLFENCE_guard` (a INT)",
			"CREATE TEMPORARY TABLE app . sqlfence_guard LIKE mine",
			"/* x */ CREATE TEMPORARY TABLE `a`.`sqlfence_g` (a INT)",
			"SET STATEMENT max_statement_time = 9 FOR CREATE TEMPORARY TABLE sqlfence_guard (a INT)",
			"EXECUTE IMMEDIATE 'CREATE TEMPORARY TABLE sqlfence_guard (a INT)'",
			"BEGIN NOT ATOMIC CREATE TEMPORARY TABLE sqlfence_guard (a INT); END",
			"ALTER TABLE mine RENAME TO sqlfence_guard", "ALTER TABLE mine RENAME sqlfence_guard", "ALTER TABLE mine RENAME = `sqlfence_guard`",
			"RENAME TABLE mine TO sqlfence_guard", "RENAME TABLE x TO y, mine TO app.sqlfence_guard",
		} {
			wantUnsupported(t, text, second(c.ExecContext(t.Context(), text)))
			wantUnsupported(t, text+", without", second(c.ExecContext(guard.Without(t.Context()), text)))
			wantUnsupported(t, text+", under a token", second(c.ExecContext(w.With(drivertest.Stale), text)))
		}
		for _, text := range []string{
			`SET timestamp = 1`, `SET SESSION timestamp := 1`, `SET @x = 1, @@timestamp = 2`, "SET `timestamp` = 1",
			`SET STATEMENT timestamp = 1 FOR UPDATE d SET v = 'x'`,
		} {
			wantUnsupported(t, text, second(c.ExecContext(w.With(drivertest.Stale), text)))
		}
		w.Want("a function", second(c.ExecContext(w.With(drivertest.Current), `SET @x = TIMESTAMP('2026-01-02')`)), nil)
		w.Want("stale", second(c.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'x'`)), guard.ErrFenced)
		w.Want("Close", c.Close(), nil)
		w.IsUntouched()
		// Ours are no such names: the schema goes through the driver too.
		w.Want("Migrate", guard.Migrate(t.Context(), w.Fenced, sqlgen.MySQL), nil)
	})
}
