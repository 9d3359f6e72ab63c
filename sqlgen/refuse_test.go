package sqlgen_test

import (
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// refusal is a text that must not be sent under a token, and a part of the
// reason.
type refusal struct{ name, text, reason string }

func testRefused(t *testing.T, engine sqlgen.Engine, texts []refusal) {
	t.Helper()
	for _, c := range texts {
		t.Run(c.name, func(t *testing.T) {
			p := sqlgen.Analyze(engine, c.text)
			if p.Strategy != sqlgen.Refuse || !p.Writes() {
				t.Fatalf("%q\nis %v: %v, expected to be refused as a write", c.text, p.Kind, p.Strategy)
			}
			if !strings.Contains(p.Reason, c.reason) {
				t.Errorf("%q\nis refused because %q, expected because %q", c.text, p.Reason, c.reason)
			}
			if p.Kind == sqlgen.KindUnknown && p.Tables != nil {
				t.Errorf("%q\nis not understood and yet writes %v", c.text, p.Tables)
			}
			if s, err := p.Guarded(1); err == nil {
				t.Errorf("Guarded returned %s", s)
			}
		})
	}
}

// DESIGN §4a lists what makes the splicer fail closed.
func TestPostgreSQLFailsClosed(t *testing.T) {
	testRefused(t, sqlgen.PostgreSQL, []refusal{
		{"a bracket that closes ours", `DELETE FROM d WHERE x) OR (1=1`, "closing bracket"},
		{"a square bracket that closes a round one", `DELETE FROM d WHERE (x]`, "closing bracket"},
		{"an open bracket", `DELETE FROM d WHERE (x`, "opening bracket"},
		{"a string without an end", `DELETE FROM d WHERE a = 'x`, "unterminated string"},
		{"a name without an end", `DELETE FROM "d`, "unterminated quoted identifier"},
		{"a comment without an end", `DELETE FROM d /* /* */`, "unterminated comment"},
		{"a dollar quote without an end", `DELETE FROM d WHERE a = $a$ x $b$`, "unterminated dollar-quoted string"},
		{"an escape string that ends in a backslash", `DELETE FROM d WHERE a = E'x\'`, "unterminated string"},
		{"a backslash before a quote", `UPDATE d SET v = 'x\' WHERE b = ' OR 1=1 --'`, "standard_conforming_strings"},
		{"three backslashes before a quote", `UPDATE d SET v = 'x\\\' WHERE b`, "standard_conforming_strings"},
		{"a backslash before a doubled quote", `UPDATE d SET v = 'x\'' WHERE b'`, "standard_conforming_strings"},
		{"a backslash at the end of U&'…'", `UPDATE d SET v = U&'x\' WHERE b`, "standard_conforming_strings"},
		{"a backslash at the end of N'…'", `UPDATE d SET v = N'x\' WHERE b`, "standard_conforming_strings"},
		{"a name with Unicode escapes (it could spell ours)", `DELETE FROM U&"\0073qlfence_k"`, "Unicode escapes"},
		{"a NUL byte", "DELETE FROM d -- x\x00\n WHERE id = 1", "NUL"},
		{"a NUL byte in a string", "SELECT 'a\x00'", "NUL"},
		{"a control character", "DELETE FROM d\x01", "no SQL text may hold"},
		{"a backslash outside of a string", `\d`, "backslash"},
		{"a number that runs into a word", `DELETE FROM d WHERE a=1OR 1=1`, "runs into a word"},
		{"a number with a dot that runs into a keyword", `DELETE FROM d WHERE a=1.OR b`, "runs into a word"},
		{"a number that runs into an escape string", `UPDATE d SET v = 1e'\' WHERE b'`, "runs into a word"},
		{"a number that runs into a dollar quote", `DELETE FROM d WHERE a=1$$x$$`, "runs into a word"},
		{"a parameter that runs into a word", `UPDATE d SET v = $1where a`, "runs into a word"},
		{"parameter 0", `DELETE FROM d WHERE a = $0`, "out of range"},
		{"parameter 65536", `DELETE FROM d WHERE a = $65536`, "out of range"},
		{"a parameter with more digits than a number holds", `DELETE FROM d WHERE a = $18446744073709551617`, "out of range"},
		{"a lone dollar", `DELETE FROM d WHERE a = $`, "dollar"},
		{"two WHERE", `DELETE FROM d WHERE a WHERE b`, "WHERE"},
		{"an empty WHERE", `DELETE FROM d WHERE`, "WHERE"},
		{"an empty WHERE before RETURNING", `DELETE FROM d WHERE RETURNING a`, "WHERE"},
		{"a list that brackets would make a row of", `UPDATE d SET v = 1 WHERE b, 2`, "WHERE"},
		{"a query that brackets would make a condition of", `DELETE FROM d WHERE SELECT true`, "WHERE"},
		{"VALUES as a condition", `DELETE FROM d WHERE VALUES (true)`, "WHERE"},
		{"TABLE as a condition", `DELETE FROM d WHERE TABLE x`, "WHERE"},
		{"WITH as a condition", `DELETE FROM d WHERE WITH x AS (SELECT true) TABLE x`, "WHERE"},
		{"a write inside FROM", `SELECT * FROM (DELETE FROM d RETURNING *) x`, "inside of brackets"},
		{"a write in a condition", `SELECT * FROM d WHERE EXISTS (UPDATE d SET v=1 RETURNING 1)`, "inside of brackets"},
		{"a write inside a WITH list inside FROM", `SELECT * FROM (WITH x AS (DELETE FROM d RETURNING *) SELECT * FROM x) y`, "inside of brackets"},
		{"a write behind a WITH list inside FROM", `SELECT * FROM (WITH w AS (SELECT 1) UPDATE d SET v=1 FROM w) y`, "inside of brackets"},
		{"a write two WITH lists deep", `WITH x AS (WITH y AS (INSERT INTO d VALUES (1)) SELECT 1) SELECT 1`, "inside of brackets"},
		{"the same under an UPDATE", `WITH x AS (WITH y AS (INSERT INTO d VALUES (1)) SELECT 1) UPDATE e SET v=1`, "inside of brackets"},
		{"a query in brackets with a writing WITH list", `(WITH x AS (DELETE FROM d) SELECT 1)`, "inside of brackets"},
		{"a writing WITH list inside an INSERT's query", `INSERT INTO d WITH x AS (DELETE FROM e RETURNING *) SELECT * FROM x`, "inside of brackets"},
		{"SELECT INTO in a WITH list", `WITH x AS (SELECT a INTO t) SELECT * FROM x`, "SELECT INTO"},
		{"SELECT INTO behind a label named insert, in a WITH list", `WITH k AS (SELECT (f()) INSERT INTO t) TABLE w`, "SELECT INTO"},
		{"SELECT INTO in a WITH list of a write", `WITH k AS (SELECT (f()) merge INTO t) DELETE FROM d`, "SELECT INTO"},
		{"SELECT INTO inside an INSERT", `INSERT INTO d SELECT insert INTO t FROM y`, "SELECT INTO"},
		{"a cursor over a write", `DECLARE c CURSOR FOR WITH x AS (DELETE FROM d RETURNING *) SELECT * FROM x`, "cursor"},
		{"a cursor over SELECT INTO", `DECLARE c CURSOR FOR SELECT * INTO x FROM d`, "SELECT INTO"},
		{"a WITH list that is not one", `WITH x (SELECT 1) DELETE FROM d`, "WITH list"},
		{"a WITH list without a statement", `WITH x AS (SELECT 1)`, "WITH list"},
		{"an empty member", `WITH x AS () DELETE FROM d`, "empty"},
		{"a member that is no query", `WITH x AS (TRUNCATE d) SELECT 1`, "not understood"},
		{"a statement behind WITH that takes none", `WITH x AS (SELECT 1) TRUNCATE d`, "not understood"},
		{"an unknown verb", `UPSERT INTO d VALUES (1)`, "unknown verb"},
		{"a byte order mark", "\ufeffDELETE FROM d", "unknown verb"},
		{"a verb in quotes", `"DELETE" FROM d`, "verb"},
		{"nothing to explain", `EXPLAIN`, "nothing to explain"},
		{"nothing to explain, with ANALYZE", `EXPLAIN ANALYZE VERBOSE`, "nothing to explain"},
		{"nothing to explain, with options", `EXPLAIN (ANALYZE)`, "nothing to explain"},
		{"EXPLAIN of EXPLAIN", `EXPLAIN ANALYZE EXPLAIN ANALYZE DELETE FROM d`, "EXPLAIN"},
		{"an INSERT without INTO", `INSERT d VALUES (1)`, "INTO"},
		{"an UPDATE without SET", `UPDATE d x y SET v=1`, "SET"},
		{"an UPDATE of an expression", `UPDATE (d) SET v=1`, "table"},
		{"a DELETE without FROM", `DELETE d`, "FROM"},
		{"a name of four parts", `DELETE FROM a.b.c.d`, "table"},
		{"EXPLAIN ANALYZE of what it does not take", `EXPLAIN ANALYZE CALL p()`, "not understood"},
		{"COPY of no table", `COPY 1 TO STDOUT`, "not understood"},
		{"COPY of a query to nowhere", `COPY (SELECT 1) FROM STDIN`, "not understood"},
		{"COPY of nothing", `COPY`, "not understood"},
		{"COPY from nowhere", `COPY d FROM`, "do not come with it"},
		{"COPY to nowhere", `COPY 1 TO`, "not understood"},
		{"CREATE alone", `CREATE`, "nothing behind"},
		{"a body that ends, and a COMMIT", `CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; COMMIT; DELETE FROM d`, "guarded as one"},
		{"a body that is none", `CREATE FUNCTION f() RETURNS int AS begin atomic; COMMIT; DELETE FROM d; END`, "guarded as one"},
		{"a body of something else", `CREATE TABLE begin atomic; COMMIT; DELETE FROM d; END`, "guarded as one"},
		{"a rule's brackets that end", `CREATE RULE r AS ON INSERT TO d DO ALSO (DELETE FROM e); COMMIT`, "guarded as one"},
		{"several statements", `SELECT 1; UPDATE d SET v=1`, "guarded as one"},
		{"a write behind a comment and a semicolon", `SELECT 1 /* ; */ ; DELETE FROM d`, "guarded as one"},
	})
}

func TestSQLiteFailsClosed(t *testing.T) {
	testRefused(t, sqlgen.SQLite, []refusal{
		{"two operators that anything behind them makes a comment of", `UPDATE d SET v = 1 /*`, "ends in an operator"},
		{"the same in a condition", `DELETE FROM d WHERE a/*`, "ends in an operator"},
		{"the same in a query", `INSERT INTO d SELECT * FROM e LIMIT 1 /*`, "ends in an operator"},
		{"a bracket that closes ours", `DELETE FROM d WHERE x) OR (1=1`, "closing bracket"},
		{"a string without an end", `DELETE FROM d WHERE a = 'x`, "unterminated string"},
		{"a name without an end", "DELETE FROM `d", "unterminated quoted identifier"},
		{"a name in square brackets without an end", `DELETE FROM [d`, "unterminated quoted identifier"},
		{"a blob without an end", `DELETE FROM d WHERE a = x'00`, "unterminated blob"},
		{"a NUL byte", "DELETE FROM d -- x\x00\n WHERE id = 1", "NUL"},
		{"a backslash", `DELETE FROM d \`, "no SQL text may hold"},
		{"a vertical tab", "DELETE FROM d\v", "no SQL text may hold"},
		{"a number that runs into a word", `DELETE FROM d WHERE a=1OR 1=1`, "runs into a word"},
		{"parameter 0", `DELETE FROM d WHERE a = ?0`, "out of range"},
		{"parameter 32767", `DELETE FROM d WHERE a = ?32767`, "out of range"},
		{"Tcl's parameters", `DELETE FROM d WHERE a = $a::b(c)`, "parameter name"},
		{"a parameter with brackets", `DELETE FROM d WHERE a = :a(c)`, "parameter name"},
		{"a parameter of a number sign", `DELETE FROM d WHERE a = #a`, "no SQL text may hold"},
		{"a lone colon", `DELETE FROM d WHERE a = : b`, "no SQL text may hold"},
		{"two WHERE", `DELETE FROM d WHERE a WHERE b`, "WHERE"},
		{"an empty WHERE", `UPDATE d SET v=1 WHERE`, "WHERE"},
		{"a list that brackets would make a row of", `UPDATE d SET v = 1 WHERE b, 2`, "WHERE"},
		{"a query that brackets would make a condition of", `DELETE FROM d WHERE SELECT true`, "WHERE"},
		{"an INSERT without rows", `INSERT INTO d`, "table"},
		{"an INSERT with columns alone", `INSERT INTO d (a)`, "table"},
		{"an INSERT of something else", `INSERT INTO d TABLE y`, "rows"},
		{"an INSERT with ON CONFLICT alone", `INSERT INTO d ON CONFLICT DO NOTHING`, "rows"},
		{"an INSERT without INTO", `INSERT d VALUES (1)`, "INTO"},
		{"an empty LIMIT", `INSERT INTO d SELECT 1 LIMIT`, "LIMIT"},
		{"a LIMIT that brackets would make a query of", `INSERT INTO d SELECT 1 LIMIT SELECT 1`, "LIMIT"},
		{"ON CONFLICT that SQLite takes for a join's", `INSERT INTO d SELECT a FROM y ON CONFLICT DO NOTHING`, "without WHERE"},
		{"the same behind a UNION", `INSERT INTO d SELECT a FROM y WHERE b UNION SELECT a FROM y JOIN z ON CONFLICT (a) DO NOTHING`, "without WHERE"},
		{"an UPDATE without SET", `UPDATE d x SET v=1`, "SET"},
		{"a DELETE without FROM", `DELETE d`, "FROM"},
		{"a query in brackets", `(SELECT 1)`, "verb"},
		{"MERGE", `MERGE INTO d USING s ON 1 WHEN MATCHED THEN DELETE`, "unknown verb"},
		{"an alias without a name", `DELETE FROM d AS`, "table"},
		{"several statements", `SELECT 1; DELETE FROM d`, "guarded as one"},
		{"a write behind BEGIN that is no trigger's", `CREATE TABLE trigger AS SELECT begin FROM y; DELETE FROM d`, "guarded as one"},
	})
}
