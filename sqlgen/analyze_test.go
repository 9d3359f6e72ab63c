package sqlgen_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestKindsOfSeveralStatements(t *testing.T) {
	const (
		def, del, upd, ins = sqlgen.KindDefinition, sqlgen.KindDelete, sqlgen.KindUpdate, sqlgen.KindInsert
		begin, commit      = sqlgen.KindBegin, sqlgen.KindCommit
	)
	for _, c := range []struct {
		name   string
		engine sqlgen.Engine
		text   string
		want   []sqlgen.Kind
	}{
		{"a transaction in one text", sqlgen.PostgreSQL, `BEGIN; DELETE FROM d; COMMIT;`, []sqlgen.Kind{begin, del, commit}},
		{"semicolons in strings, names and comments", sqlgen.PostgreSQL, `DELETE FROM ";" WHERE a = ';' /* ; */ AND $$;$$ = b -- ;`, []sqlgen.Kind{del}},
		{"empty statements between", sqlgen.SQLite, `;; DELETE FROM d;; -- x
			; COMMIT`, []sqlgen.Kind{del, commit}},
		{"a body of BEGIN ATOMIC is one statement", sqlgen.PostgreSQL,
			`CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC UPDATE d SET v = CASE WHEN a THEN 1 END; SELECT 1; END; COMMIT`, []sqlgen.Kind{def, commit}},
		{"an empty body", sqlgen.PostgreSQL, `CREATE PROCEDURE f() BEGIN ATOMIC END; COMMIT`, []sqlgen.Kind{def, commit}},
		{"a rule's actions are one statement", sqlgen.PostgreSQL, `CREATE RULE r AS ON INSERT TO d DO ALSO (DELETE FROM e; DELETE FROM f); COMMIT`, []sqlgen.Kind{def, commit}},
		{"columns named begin and atomic begin no body", sqlgen.PostgreSQL, `CREATE VIEW v AS SELECT begin atomic FROM d; COMMIT`, []sqlgen.Kind{def, commit}},
		{"a column named begin, of a SELECT", sqlgen.PostgreSQL, `SELECT begin atomic FROM d; COMMIT; END`, []sqlgen.Kind{sqlgen.KindRead, commit, commit}},
		{"a trigger's body is one statement", sqlgen.SQLite, `CREATE TRIGGER r AFTER INSERT ON d BEGIN DELETE FROM e; INSERT INTO f VALUES (1); END; COMMIT`, []sqlgen.Kind{def, commit}},
		{"a trigger's body with columns named end and begin", sqlgen.SQLite,
			`CREATE TEMP TRIGGER r AFTER UPDATE OF begin ON d WHEN new.begin BEGIN UPDATE e SET end = CASE WHEN end THEN 1 END, begin = 2; END; DELETE FROM d`, []sqlgen.Kind{def, del}},
		{"a table named trigger begins no body", sqlgen.SQLite, `CREATE TABLE trigger AS SELECT begin FROM d; COMMIT`, []sqlgen.Kind{def, commit}},
		{"an INSERT and an UPDATE", sqlgen.SQLite, `INSERT INTO d VALUES (1); UPDATE d SET v=1`, []sqlgen.Kind{ins, upd}},
		{"nothing", sqlgen.PostgreSQL, ` ; `, nil},
		{"what cannot be read", sqlgen.PostgreSQL, `COMMIT; DELETE FROM d WHERE 'x`, []sqlgen.Kind{sqlgen.KindUnknown}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sqlgen.Analyze(c.engine, c.text).Kinds(); !slices.Equal(got, c.want) {
				t.Errorf("%s\nholds %v, expected %v", c.text, got, c.want)
			}
		})
	}
}

func TestTablesOfSeveralStatementsAreCompleteOrNil(t *testing.T) {
	for text, want := range map[string]string{
		`UPDATE d SET v=1; SELECT 1; DELETE FROM s.e`: "d, s.e",
		`UPDATE d SET v=1; CALL p()`:                  "not told",
		`UPDATE d SET v=1; CREATE TABLE e (id int)`:   "not told",
		`UPDATE d SET v=1; TRUNCATE e CASCADE`:        "not told",
		`UPDATE d SET v=1; UPSERT e`:                  "not told",
		`BEGIN; UPDATE d SET v=1; COMMIT`:             "d",
	} {
		if got := written(sqlgen.Analyze(sqlgen.PostgreSQL, text)); got != want {
			t.Errorf("%s\nwrites %s, expected %s", text, got, want)
		}
	}
}

func TestNamesOfTables(t *testing.T) {
	long := strings.Repeat("x", 62)
	for _, c := range []struct {
		name   string
		engine sqlgen.Engine
		text   string
		want   sqlgen.Table
	}{
		{"a plain name is folded", sqlgen.PostgreSQL, `DELETE FROM Public.JOBS`, sqlgen.Table{Schema: "public", Name: "jobs"}},
		{"a quoted name is not", sqlgen.PostgreSQL, `DELETE FROM "Public"."JO""BS"`, sqlgen.Table{Schema: "Public", Name: `JO"BS`}},
		{"only ASCII is folded", sqlgen.PostgreSQL, `DELETE FROM ÄPFEL`, sqlgen.Table{Name: "Äpfel"}},
		{"the database is left out", sqlgen.PostgreSQL, `DELETE FROM db.s.jobs`, sqlgen.Table{Schema: "s", Name: "jobs"}},
		{"a name is cut at 63 bytes", sqlgen.PostgreSQL, `DELETE FROM ` + long + "yz", sqlgen.Table{Name: long + "y"}},
		{"and between two characters", sqlgen.PostgreSQL, `DELETE FROM "` + long + `äz"`, sqlgen.Table{Name: long}},
		{"SQLite does not cut", sqlgen.SQLite, `DELETE FROM ` + long + "yz", sqlgen.Table{Name: long + "yz"}},
		{"square brackets", sqlgen.SQLite, `DELETE FROM main.[a"b]`, sqlgen.Table{Schema: "main", Name: `a"b`}},
		{"backticks", sqlgen.SQLite, "DELETE FROM `a``b`", sqlgen.Table{Name: "a`b"}},
		{"a string as a name", sqlgen.SQLite, `DELETE FROM 'a''b'`, sqlgen.Table{Name: "a'b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sqlgen.Analyze(c.engine, c.text).Tables; len(got) != 1 || got[0] != c.want {
				t.Errorf("%s\nwrites %q, expected %q", c.text, got, c.want)
			}
		})
	}
}

func TestInjectedNamesDifferFromTheUsers(t *testing.T) {
	for _, c := range []struct{ text, suffix string }{
		{`DELETE FROM sqlfence_k`, "_2"},
		{`DELETE FROM d WHERE "SQLFENCE_guard" = 1`, "_2"},
		{`WITH sqlfence_k AS (SELECT 1), sqlfence_guard_2 AS (SELECT 2) DELETE FROM d`, "_3"},
		{`DELETE FROM sqlfence_k_2 WHERE sqlfence_k_4 = sqlfence_guard_3`, "_5"},
		{`DELETE FROM d WHERE a = 'sqlfence_k'`, ""},
	} {
		got, err := sqlgen.Analyze(sqlgen.PostgreSQL, c.text).Guarded(1)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"sqlfence_k" + c.suffix + " AS MATERIALIZED (", ", sqlfence_guard" + c.suffix + " AS (", "FROM sqlfence_k" + c.suffix + " WHERE NOT sqlfence_k" + c.suffix + ".ok)"} {
			if strings.Count(got, name) != 1 {
				t.Errorf("%s\nbecame %s\nexpected once in it: %s", c.text, got, name)
			}
		}
	}
}

func TestParametersThatLeaveNoRoomForTheFence(t *testing.T) {
	for _, c := range []struct {
		engine sqlgen.Engine
		params int // that fit with those of one token
	}{{sqlgen.PostgreSQL, 65532}, {sqlgen.SQLite, 32763}, {sqlgen.MySQL, 65532}} {
		text := func(params int) string {
			switch c.engine {
			case sqlgen.PostgreSQL:
				return fmt.Sprintf("DELETE FROM d WHERE a = $%d", params)
			case sqlgen.SQLite:
				return fmt.Sprintf("DELETE FROM d WHERE a = ?%d", params)
			}
			return "DELETE FROM d WHERE a IN (?" + strings.Repeat(", ?", params-1) + ")"
		}
		fits := sqlgen.Analyze(c.engine, text(c.params))
		if _, err := fits.Guarded(1); err != nil {
			t.Errorf("%v: %d parameters: %v", c.engine, c.params, err)
		}
		var many *sqlgen.TooManyParamsError
		if _, err := fits.Guarded(2); !errors.As(err, &many) || many.Params != c.params || many.Total != c.params+6 || many.Limit != c.params+3 {
			t.Errorf("%v: %d parameters and two tokens: %v", c.engine, c.params, err)
		}
		full := sqlgen.Analyze(c.engine, text(c.params+1))
		if _, err := full.Guarded(1); !errors.As(err, &many) {
			t.Errorf("%v: %d parameters: %v, expected TooManyParamsError", c.engine, c.params+1, err)
		}
	}
}

func TestGuardedNeedsAToken(t *testing.T) {
	p := sqlgen.Analyze(sqlgen.PostgreSQL, "DELETE FROM d")
	for _, n := range []int{0, -1} {
		if s, err := p.Guarded(n); err == nil {
			t.Errorf("Guarded(%d) returned %s", n, s)
		}
	}
}

func TestWhoIsAskedWhenNoRowWasAffected(t *testing.T) {
	for _, c := range []struct {
		engine sqlgen.Engine
		text   string
		want   bool
	}{
		{sqlgen.PostgreSQL, "DELETE FROM d", false},
		{sqlgen.SQLite, "DELETE FROM d", true},
		{sqlgen.SQLite, "INSERT INTO d DEFAULT VALUES", false},
		{sqlgen.SQLite, "SELECT 1", false},
		{sqlgen.MySQL, "DELETE FROM d", true},
		{sqlgen.MySQL, "INSERT INTO d SELECT 1", true},
		{sqlgen.MySQL, "INSERT INTO d VALUES (1)", false},
		{sqlgen.MySQL, "INSERT INTO d VALUES ()", false},
	} {
		if got := sqlgen.Analyze(c.engine, c.text).AskOnZero(); got != c.want {
			t.Errorf("%v: %s: %v, expected %v", c.engine, c.text, got, c.want)
		}
	}
}

func TestMayChangeTransaction(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{"SELECT 1", false}, {"  \n(SELECT 1)", false}, {"SELECT 1; ;\n", false}, {"-- begin\nUPDATE d SET v=1", false}, {"", false},
		{"WITH x AS (SELECT 1) SELECT 1", false}, {"beginning", false}, {"DELETE FROM d WHERE a = 1", false},
		{"BEGIN", true}, {"start transaction", true}, {"Commit", true}, {"END;", true}, {"ROLLBACK TO a", true}, {"ABORT", true},
		{"SAVEPOINT a", true}, {"RELEASE a", true}, {"PREPARE TRANSACTION 'x'", true}, {"ATTACH 'x' AS y", true}, {"DETACH y", true},
		{"-- x\nBEGIN", true}, {"/* x */ BEGIN", true}, {";BEGIN", true}, {"SELECT 1; COMMIT", true}, {"SELECT 1;--\nCOMMIT", true},
		{"\ufeffCOMMIT", true}, {"SELECT 1;\ufeffCOMMIT", true}, {"\x00COMMIT", true}, {"\"COMMIT\"", true},
	} {
		for _, e := range []sqlgen.Engine{sqlgen.PostgreSQL, sqlgen.SQLite} {
			if got := sqlgen.MayChangeTransaction(e, c.text); got != c.want {
				t.Errorf("%v: %q: %v, expected %v", e, c.text, got, c.want)
			}
		}
	}
	// PostgreSQL ends a comment at a carriage return, SQLite does not.
	if text := "-- x\rCOMMIT"; !sqlgen.MayChangeTransaction(sqlgen.PostgreSQL, text) || sqlgen.MayChangeTransaction(sqlgen.SQLite, text) {
		t.Errorf("%q: expected true for PostgreSQL and false for SQLite", text)
	}
}
