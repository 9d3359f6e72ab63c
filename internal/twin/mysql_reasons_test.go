package twin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func eachMariaDB(t *testing.T, fn func(t *testing.T, tw *mysqlTwin)) {
	t.Helper()
	for _, server := range testserver.MySQL(t) {
		if server.Engine == "MariaDB" { // what MySQL does about these, nobody has seen yet
			t.Run(server.Engine+"_"+server.Version, func(t *testing.T) { fn(t, newMySQLTwin(t, server, "")) })
		}
	}
}

// TestMySQLRowsThatAreNotSplicedWouldDoSomethingElse holds the reasons for
// which some rows are checked first: what they say as VALUES and what they
// would say as SELECT … FROM DUAL.
func TestMySQLRowsThatAreNotSplicedWouldDoSomethingElse(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, tw *mysqlTwin) {
		for _, c := range []struct{ name, values, asSelect string }{
			{"an upsert tells the id of the row that was there",
				`INSERT INTO auto (v, k) VALUES ('up', 'k10') ON DUPLICATE KEY UPDATE v = VALUES(v)`,
				`INSERT INTO auto (v, k) SELECT 'up', 'k10' FROM DUAL HAVING 1 ON DUPLICATE KEY UPDATE v = VALUES(v)`},
			{"a name is a column of the row", `INSERT INTO d (id, i) VALUES (90, id)`, `INSERT INTO d (id, i) SELECT 90, id FROM DUAL HAVING 1`},
			{"DEFAULT", `INSERT INTO d (v) VALUES (DEFAULT)`, `INSERT INTO d (v) SELECT DEFAULT FROM DUAL HAVING 1`},
			{"an aggregate is an error", `INSERT INTO d (v) VALUES (COUNT(*))`, `INSERT INTO d (v) SELECT COUNT(*) FROM DUAL HAVING 1`},
			{"a string behind a number is an error", `INSERT INTO d (v) VALUES (1 'a')`, `INSERT INTO d (v) SELECT 1 'a' FROM DUAL HAVING 1`},
		} {
			t.Run(c.name, func(t *testing.T) {
				if p := sqlgen.Analyze(sqlgen.MySQL, c.values); p.Strategy != sqlgen.CheckFirst {
					t.Errorf("%s\nis %v, expected check first", c.values, p.Strategy)
				}
				a, _ := tw.try(twinStatement{}, c.values, nil, false)
				b, _ := tw.try(twinStatement{}, c.asSelect, nil, false)
				if a == b {
					t.Errorf("%s\ngives %s, and so does\n%s", c.values, a, c.asSelect)
				}
			})
		}
	})
}

// TestMySQLAWhereWouldLetAnAggregateWrite: a query with an aggregate has a row
// even where its WHERE is false, and none where its HAVING is.
func TestMySQLAWhereWouldLetAnAggregateWrite(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, tw *mysqlTwin) {
		for clause, want := range map[string]string{"WHERE": "affected: 1", "HAVING": "affected: 0"} {
			text := `INSERT INTO e (a) SELECT COUNT(*) FROM DUAL ` + clause + ` EXISTS (SELECT 1 FROM sqlfence_guard WHERE high_water = 99 LOCK IN SHARE MODE)`
			if got, _ := tw.try(twinStatement{}, text, nil, false); !strings.HasPrefix(got, want) {
				t.Errorf("%s\ngave %s, expected %s", text, got, want)
			}
		}
	})
}

// TestMySQLAFunctionWouldWriteBeforeTheFenceIsAsked is why a statement that
// calls one of the program's own is checked first.
func TestMySQLAFunctionWouldWriteBeforeTheFenceIsAsked(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, tw *mysqlTwin) {
		const text = `UPDATE d JOIN (SELECT writes(1) AS x) AS s SET v = 'q'`
		if p := sqlgen.Analyze(sqlgen.MySQL, text); p.Strategy != sqlgen.CheckFirst {
			t.Errorf("%s\nis %v, expected check first", text, p.Strategy)
		}
		_, before := tw.try(twinStatement{}, "DO 1", nil, false)
		spliced := text + ` WHERE EXISTS (SELECT 1 FROM sqlfence_guard WHERE high_water = 99 LOCK IN SHARE MODE)`
		got, after := tw.try(twinStatement{}, spliced, nil, false)
		if !strings.HasPrefix(got, "affected: 0") || after == before {
			t.Errorf("%s\nwith the fence shut gave %s and wrote nothing", spliced, got)
		}
	})
}

// TestMySQLStrictModeDecidesOnNullInOneRow is the one known difference between
// a guarded write and the bare one: where sql_mode is not strict, NULL for a NOT
// NULL column is an error in VALUES of one row, and behind SELECT the column's
// implicit default. docs/STATEMENTS.md says so.
func TestMySQLStrictModeDecidesOnNullInOneRow(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, tw *mysqlTwin) {
		const text = `INSERT INTO c VALUES (50, NULL)`
		guarded, err := sqlgen.Analyze(sqlgen.MySQL, text).Guarded(1)
		if err != nil {
			t.Fatal(err)
		}
		token := []any{"job", int64(7), int64(70)}
		for mode, alike := range map[string]bool{"STRICT_TRANS_TABLES": true, "STRICT_ALL_TABLES": true, "": false} {
			tw.must("SET sql_mode = '" + mode + "'")
			bare, _ := tw.try(twinStatement{}, text, nil, false)
			spliced, _ := tw.try(twinStatement{}, guarded, token, false)
			if (bare == spliced) != alike || !strings.HasPrefix(bare, "error 1048") {
				t.Errorf("with sql_mode %q: %s\nspliced: %s", mode, bare, spliced)
			}
		}
	})
}

// TestMySQLTemporaryTableCannotStandInForTheFence: a TEMPORARY table hides the
// view even where that is named with its database, but it cannot know the time
// of a later statement. The control is the same fence without the time.
func TestMySQLTemporaryTableCannotStandInForTheFence(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, tw *mysqlTwin) {
		p := sqlgen.Analyze(sqlgen.MySQL, `UPDATE d SET v = 'stale' WHERE id = 1`, sqlgen.Database(tw.name))
		guarded, err := p.Guarded(1)
		if err != nil {
			t.Fatal(err)
		}
		stale, valid := []any{"job", int64(6), int64(60)}, []any{"job", int64(7), int64(70)}
		for _, shadow := range []string{
			`CREATE TEMPORARY TABLE sqlfence_fences SELECT 'job' AS resource, 6 AS high_water, 60 AS grant_id, 0 AS advanced`, // of the base table: hides nothing from the view
			`CREATE TEMPORARY TABLE sqlfence_guard SELECT 'job' AS resource, 6 AS high_water, 60 AS grant_id, CURRENT_TIMESTAMP(6) AS at`,
		} {
			tw.must(shadow)
			if got, _ := tw.try(twinStatement{}, guarded, stale, false); !strings.HasPrefix(got, "affected: 0") {
				t.Errorf("%s\nlets a stale token write: %s", shadow, got)
			}
		}
		if got, _ := tw.try(twinStatement{}, guarded, valid, false); !strings.HasPrefix(got, "affected: 0") {
			t.Errorf("a hidden fence lets a valid token write: %s", got)
		}
		timeless := strings.ReplaceAll(guarded, " AND sqlfence_g.at = CURRENT_TIMESTAMP(6)", "")
		if got, _ := tw.try(twinStatement{}, timeless, stale, false); !strings.HasPrefix(got, "affected: 1") {
			t.Errorf("the control, without the time, gave %s", got)
		}
		tw.must(`DROP TEMPORARY TABLE sqlfence_guard`)
		if got, _ := tw.try(twinStatement{}, guarded, valid, false); !strings.HasPrefix(got, "affected: 1") {
			t.Errorf("without the temporary table, a valid token gave %s", got)
		}
	})
}

// TestMySQLNamesCannotStandInForTheFence: of CTEs, aliases and columns (SPEC
// G10).
func TestMySQLNamesCannotStandInForTheFence(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, tw *mysqlTwin) {
		const cte = `WITH sqlfence_guard (resource, high_water, grant_id, at) AS (SELECT 'job', 6, 60, CURRENT_TIMESTAMP(6)) SELECT high_water, 'cte' FROM sqlfence_guard`
		text := `INSERT INTO e ` + cte
		if p := sqlgen.Analyze(sqlgen.MySQL, text); p.Strategy != sqlgen.CheckFirst {
			t.Errorf("%s\nis %v without the fence's database, expected check first", text, p.Strategy)
		}
		p := sqlgen.Analyze(sqlgen.MySQL, text, sqlgen.Database(tw.name))
		guarded, err := p.Guarded(1)
		if err != nil {
			t.Fatal(err)
		}
		stale, valid := []any{"job", int64(6), int64(60)}, []any{"job", int64(7), int64(70)}
		if got, _ := tw.try(twinStatement{}, guarded, stale, false); !strings.HasPrefix(got, "affected: 0") {
			t.Errorf("a stale token gave %s", got)
		}
		if got, _ := tw.try(twinStatement{}, guarded, valid, false); !strings.HasPrefix(got, "affected: 1") {
			t.Errorf("a valid token gave %s", got)
		}
		// The control: not named with its database, the member is read.
		bare := strings.ReplaceAll(guarded, "`"+tw.name+"`.", "")
		if got, _ := tw.try(twinStatement{}, bare, stale, false); !strings.HasPrefix(got, "affected: 1") {
			t.Errorf("the control gave %s", got)
		}
	})
}

// TestMySQLAFenceInAnotherDatabaseIsNotMovedByUse (SPEC G10).
func TestMySQLAFenceInAnotherDatabaseIsNotMovedByUse(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, tw *mysqlTwin) {
		moved := newMySQLTwin(t, slices.DeleteFunc(slices.Clone(testserver.MySQL(t)), func(s testserver.Server) bool { return s.Engine != "MariaDB" })[0], "")
		moved.must("UPDATE sqlfence_fences SET high_water = 6, grant_id = 60 WHERE resource = 'job'")
		tw.must("USE " + moved.name)
		stale := []any{"job", int64(6), int64(60)}
		for text, want := range map[string]string{"with": "affected: 0", "without": "affected: 1"} {
			var opts []sqlgen.Option
			if text == "with" {
				opts = []sqlgen.Option{sqlgen.Database(tw.name)}
			}
			guarded, err := sqlgen.Analyze(sqlgen.MySQL, `UPDATE d SET v = 'x' WHERE id = 1`, opts...).Guarded(1)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := tw.try(twinStatement{}, guarded, stale, false); !strings.HasPrefix(got, want) {
				t.Errorf("%s the name of the database: %s, expected %s", text, got, want)
			}
		}
	})
}
