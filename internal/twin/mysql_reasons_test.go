package twin_test

import (
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func eachMySQLTwin(t *testing.T, fn func(t *testing.T, tw *mysqlTwin)) {
	t.Helper()
	eachMySQLTwinWith(t, "", fn)
}

func eachMySQLTwinWith(t *testing.T, parameters string, fn func(t *testing.T, tw *mysqlTwin)) {
	t.Helper()
	for _, server := range testserver.MySQL(t) {
		t.Run(server.Engine+"_"+server.Version, func(t *testing.T) { fn(t, newMySQLTwin(t, server, parameters)) })
	}
}

// TestMySQLAWhereWouldLetAnAggregateWrite: a query with an aggregate has a row
// even where its WHERE is false, and none where its HAVING is.
func TestMySQLAWhereWouldLetAnAggregateWrite(t *testing.T) {
	eachMySQLTwin(t, func(t *testing.T, tw *mysqlTwin) {
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
	eachMySQLTwin(t, func(t *testing.T, tw *mysqlTwin) {
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

// TestMySQLTemporaryTableCannotStandInForTheFence: a TEMPORARY table hides the
// view even where that is named with its database, but it cannot know the time
// of a later statement. The control is the same fence without the time.
func TestMySQLTemporaryTableCannotStandInForTheFence(t *testing.T) {
	eachMySQLTwin(t, func(t *testing.T, tw *mysqlTwin) {
		p := sqlgen.Analyze(sqlgen.MySQL, `UPDATE d SET v = 'stale' WHERE id = 1`, sqlgen.Database(tw.name))
		guarded, err := p.Guarded(1)
		if err != nil {
			t.Fatal(err)
		}
		stale, valid := []any{hex("job"), int64(6), int64(60)}, []any{hex("job"), int64(7), int64(70)}
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
	eachMySQLTwin(t, func(t *testing.T, tw *mysqlTwin) {
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
		stale, valid := []any{hex("job"), int64(6), int64(60)}, []any{hex("job"), int64(7), int64(70)}
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
	eachMySQLTwin(t, func(t *testing.T, tw *mysqlTwin) {
		moved := newMySQLTwin(t, tw.server, "")
		moved.must("UPDATE sqlfence_fences SET high_water = 6, grant_id = 60 WHERE resource = 'job'")
		tw.must("USE " + moved.name)
		stale := []any{hex("job"), int64(6), int64(60)}
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
