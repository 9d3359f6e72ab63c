package main

import (
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// What the oracle has found, and its neighbours.
func TestNothingIsWrongWithWhatWasWrongBefore(t *testing.T) {
	for _, text := range []string{
		// An option's name may be quoted.
		`EXPLAIN ("analyze") DELETE FROM t`, `EXPLAIN (FORMAT JSON, "analyze" on) INSERT INTO t VALUES (1)`, `EXPLAIN (ANALYSE) DELETE FROM t`,
		`EXPLAIN ANALYSE DELETE FROM t`, `EXPLAIN (ANALYZE ON, COSTS) DELETE FROM t`, `EXPLAIN VERBOSE DELETE FROM t`, `EXPLAIN (analyze 'off') DELETE FROM t`,
		// There may be nothing to explain.
		`EXPLAIN ANALYZE`, `EXPLAIN VERBOSE`, `EXPLAIN ANALYZE VERBOSE`, `EXPLAIN (ANALYZE)`, `EXPLAIN /* SELECT 1 */`, `SELECT 1; EXPLAIN ANALYZE`,
		// A WITH list in brackets, with a write behind it.
		`SELECT * FROM (WITH w AS (WITH baz AS (SELECT 1) UPDATE bar SET a = 1 FROM baz) SELECT 1) x`, `(WITH w AS (WITH v AS (SELECT 1) INSERT INTO t TABLE v) SELECT 1)`,
		// No statement, but one with brackets around its condition.
		`UPDATE t SET a = 1 WHERE b , 2`, `DELETE FROM t WHERE SELECT true`, `DELETE FROM t WHERE VALUES (true)`, `DELETE FROM t WHERE TABLE x`,
		`DELETE FROM t WHERE WITH x AS (SELECT true) TABLE x`, `DELETE FROM t WHERE x) OR (1=1`, `DELETE FROM t WHERE id = 1 OR b, c RETURNING a`,
		// Columns and labels named like a write, in front of INTO.
		`SELECT insert INTO t FROM x`, `SELECT a -> merge INTO t FROM x`, `SELECT a insert INTO t FROM x`, `SELECT (f()) INSERT INTO t`, `SELECT DISTINCT insert INTO t FROM x`,
		`SELECT ALL merge INTO t FROM x`, `(SELECT INSERT INTO t FROM x)`, `SELECT a UNION SELECT (1) INSERT`, `SELECT (1) INSERT INTO t UNION SELECT 1`, `SELECT INTO t FROM x`, `DECLARE c CURSOR FOR SELECT * INTO x FROM y`,
		`EXPLAIN ANALYZE SELECT (1) INSERT INTO t`, `INSERT INTO t (insert) SELECT insert FROM x`, `WITH insert AS (SELECT 1) SELECT * FROM insert`,
		`WITH update AS (UPDATE t SET a = 1 RETURNING *) SELECT * FROM update`, `WITH x AS (TABLE y), insert AS (INSERT INTO t TABLE x RETURNING *) DELETE FROM z USING insert WHERE a OR b`,
		// Words that are names here.
		`UPDATE ONLY t AS set SET set = 1 WHERE set OR true`, `DELETE FROM t AS using USING u WHERE a OR b`, `DELETE FROM ONLY (t) WHERE a OR b`, `UPDATE t * SET a = 1 WHERE a OR b`,
		`UPDATE t SET a = 1 RETURNING a AS where`, `UPDATE t SET a=1 WHERE "current" = 1 OR b`, `DELETE FROM t WHERE CURRENT OF "C"`, `UPDATE t SET a = DEFAULT WHERE CURRENT OF c RETURNING *`,
		`UPDATE t SET a = 1 FROM a JOIN LATERAL (SELECT 1 WHERE x) y ON true, ROWS FROM (f() AS (z int)) WHERE b OR c`,
		`INSERT INTO t AS x SELECT * FROM y ON CONFLICT (a) WHERE b OR c DO UPDATE SET a = 1 WHERE x.a OR x.b RETURNING *`,
		`MERGE INTO t AS x USING (SELECT 1 WHERE true) y ON (x.a = y.a) WHEN MATCHED THEN UPDATE SET a = 1 WHEN NOT MATCHED BY SOURCE THEN DELETE RETURNING merge_action(), x.*`,
		`WITH w AS (SELECT a INTO test) SELECT * FROM w`, `WITH w AS (SELECT (f()) INSERT INTO t) TABLE w`, `WITH w AS (WITH v AS (SELECT a INTO test) TABLE v) SELECT 1`,
		`WITH w AS (SELECT a INTO test) DELETE FROM d`, `WITH x AS (DELETE FROM d RETURNING *) SELECT * INTO y FROM x`, `EXPLAIN ANALYZE WITH w AS (SELECT a INTO test) SELECT 1`,
		// What is executed behind a check must be one statement, and leave the transaction alone.
		`CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; COMMIT`, `CREATE FUNCTION f() RETURNS int LANGUAGE begin; COMMIT; END`, `CREATE PROCEDURE begin(atomic int) BEGIN ATOMIC END; COMMIT`,
		`CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; DELETE FROM d`, `CREATE RULE r AS ON INSERT TO d DO (DELETE FROM e; DELETE FROM f); COMMIT`,
		`SELECT 1; COPY x (b, d) FROM`, `COPY x FROM`, `COPY x TO`, `COPY (SELECT 1) TO`, `COPY x FROM; SELECT 1`, `EXECUTE p`, `EXECUTE p(1, 'x')`, `PREPARE p AS DELETE FROM d`, `PREPARE transaction AS DELETE FROM d`, `PREPARE p(int) AS INSERT INTO d VALUES ($1)`, `EXPLAIN ANALYZE EXECUTE p`, `EXPLAIN (ANALYZE) CREATE TABLE x AS SELECT 1`,
		`CALL p(1)`, `DO LANGUAGE plpgsql 'begin commit; end'`, `COPY d FROM PROGRAM 'x'`, `COPY (SELECT 1) TO STDIN`, `COPY d TO STDIN`, `DECLARE c INSENSITIVE CURSOR WITH HOLD FOR SELECT 1`,
		// Tables that are not named.
		`TRUNCATE a, b.c CASCADE`, `TRUNCATE TABLE ONLY a, b * RESTART IDENTITY`, `COPY t TO STDOUT`, `COPY t (a) FROM STDIN`, `COPY (DELETE FROM t RETURNING *) TO STDOUT`, `COPY t TO '/tmp/x'`, `COPY (SELECT 1) TO PROGRAM 'x'`,
		`CREATE TABLE IF NOT EXISTS x AS EXECUTE p`, `CREATE UNLOGGED TABLE x (a) WITH (fillfactor=10) ON COMMIT DROP TABLESPACE s AS VALUES (1)`,
		// What ends a transaction.
		`ROLLBACK WORK TO SAVEPOINT a`, `ROLLBACK TO commit`, `SAVEPOINT commit`, `COMMIT AND CHAIN`, `PREPARE TRANSACTION 'x'`, `COMMIT PREPARED 'x'`, "--x\rCOMMIT", `; COMMIT`, `SELECT 1; BEGIN`, `/* ; */ END`,
	} {
		for _, f := range judgeText(text).Findings {
			t.Errorf("%s\ntext:    %s\nspliced: %s", f.What, f.Text, f.Spliced)
		}
	}
}

func TestNothingIsWrongOnSQLiteWithWhatWasWrongBefore(t *testing.T) {
	var total tally
	twins := &sqliteTwins{total: &total}
	defer twins.close()
	if err := twins.reset(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)", "CREATE TRIGGER r AFTER INSERT ON t WHEN 0 BEGIN DELETE FROM t; SELECT CASE WHEN 1 THEN 2 END; END", "DROP TRIGGER r; COMMIT",
		"CREATE TRIGGER begin AFTER INSERT ON t WHEN 0 BEGIN DELETE FROM t; END; COMMIT", "CREATE TRIGGER end AFTER INSERT ON t WHEN 0 BEGIN DELETE FROM t; END", "CREATE TABLE trigger AS SELECT 1 AS begin; COMMIT; SELECT 1", "PRAGMA user_version = 3", "INSERT INTO t (a, b) VALUES (1, 2), (3, 4)",
		// A byte order mark is white space.
		"\ufeffCOMMIT", "; \ufeffSAVEPOINT a", "UPDATE t SET a = 1 \ufeffWHERE id = 1 OR id = 2", "INSERT INTO t (a) SELECT 1 \ufeffUNION SELECT 2",
		// White space that is some only behind other.
		"UPDATE t SET a =\t\v1 WHERE\t\vid = 1", "\t\vCOMMIT",
		// Columns are named by their text.
		"UPDATE t SET a = 1 WHERE id = 1 RETURNING ?", "INSERT INTO t (a) VALUES (?) RETURNING id, a + ?", "UPDATE t SET a = ? WHERE id = ? RETURNING a AS x",
		"UPDATE t SET a = 2 WHERE id = 1 OR a = 3 /* open", "REPLACE INTO t (id, a) VALUES (1, :a), (2, :b)", "DELETE FROM t WHERE WITH = 1",
		"INSERT INTO t (id, a) SELECT id, a FROM t WHERE true ON CONFLICT (id) DO UPDATE SET a = excluded.a + 1 RETURNING *", "EXPLAIN DELETE FROM t",
	} {
		twins.judge(text, "")
	}
	for what := range total.seen {
		t.Error(what)
	}
	if twins.replayed == 0 || twins.compiled < 10 {
		t.Errorf("%d compiled, %d replayed: too few", twins.compiled, twins.replayed)
	}
	if plan := sqlgen.Analyze(sqlgen.SQLite, "\ufeffCOMMIT"); plan.Strategy == sqlgen.Pass && plan.Kind != sqlgen.KindCommit {
		t.Errorf("COMMIT behind a byte order mark passes as %s", plan.Kind)
	}
}

func TestTheShapesThatProgramsSendAreRight(t *testing.T) {
	statements, err := readCorpora("testdata/corpora")
	if err != nil {
		t.Fatal(err)
	}
	var total tally
	trees(statements, &total, false)
	if err := sqliteReplay(statements, &total, false); err != nil {
		t.Fatal(err)
	}
	if total.wrong+total.missed+total.singlesRefused > 0 || total.spliced < 40 {
		t.Errorf("%d wrong, %d missed, %d single writes not spliced, %d spliced", total.wrong, total.missed, total.singlesRefused, total.spliced)
	}
}
