package sqlgen_test

import (
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestMySQLUpdatesAreGuardedInTheirWhere(t *testing.T) {
	testShapes(t, sqlgen.MySQL, []shape{
		{"no WHERE", `UPDATE d SET v=1`, `UPDATE d SET v=1 WHERE [mine]`},
		{"an OR at the top (CASES D21)", `UPDATE d SET v='x' WHERE id=1 OR id=2`, `UPDATE d SET v='x' WHERE [mine] AND (id=1 OR id=2)`},
		{"other names of AND and OR", `UPDATE d SET v='x' WHERE a && b || c XOR d`, `UPDATE d SET v='x' WHERE [mine] AND (a && b || c XOR d)`},
		{"a trailing comment (CASES D22)", `UPDATE d SET v='x' WHERE id=1 -- note`, `UPDATE d SET v='x' WHERE [mine] AND (id=1) -- note`},
		{"a trailing comment of MySQL's own", `UPDATE d SET v='x' WHERE id=1 #note`, `UPDATE d SET v='x' WHERE [mine] AND (id=1) #note`},
		{"a comment that does not nest", `UPDATE d SET v=1 /* /* WHERE */ WHERE a`, `UPDATE d SET v=1 /* /* WHERE */ WHERE [mine] AND (a)`},
		{"two minuses are no comment", `UPDATE d SET v=1--1 WHERE a--1`, `UPDATE d SET v=1--1 WHERE [mine] AND (a--1)`},
		{"two minuses at the end are one", `UPDATE d SET v=1 WHERE a --`, `UPDATE d SET v=1 WHERE [mine] AND (a) --`},
		{"a carriage return does not end a comment", "UPDATE d SET v=1 -- x\rWHERE a", "UPDATE d SET v=1 WHERE [mine] -- x\rWHERE a"},
		{"a semicolon", `UPDATE d SET v=1 WHERE a; -- c`, `UPDATE d SET v=1 WHERE [mine] AND (a); -- c`},
		{"brackets right behind WHERE", `UPDATE d SET v=1 WHERE(a)OR(b)`, `UPDATE d SET v=1 WHERE [mine] AND ((a)OR(b))`},
		{"ORDER BY and LIMIT (CASES D26)", `UPDATE d SET v=? WHERE id=? ORDER BY FIELD(id,?) LIMIT 1`, `UPDATE d SET v=? WHERE [mine] AND (id=?) ORDER BY FIELD(id,?) LIMIT 1`},
		{"LIMIT alone", `UPDATE d SET v=1 LIMIT 1`, `UPDATE d SET v=1 WHERE [mine] LIMIT 1`},
		{"options, alias, partition (CASES D26)", `UPDATE LOW_PRIORITY IGNORE d PARTITION(p0) AS x SET v=1 WHERE x.a`, `UPDATE LOW_PRIORITY IGNORE d PARTITION(p0) AS x SET v=1 WHERE [mine] AND (x.a)`},
		{"index and optimizer hints", `UPDATE /*+ NO_MERGE(x) */ d USE INDEX (i, j) SET v=1 WHERE a`, `UPDATE /*+ NO_MERGE(x) */ d USE INDEX (i, j) SET v=1 WHERE [mine] AND (a)`},
		{"a join (CASES D2)", `UPDATE d JOIN (SELECT 1 AS id WHERE 1) u ON d.id=u.id SET d.v=u.s`, `UPDATE d JOIN (SELECT 1 AS id WHERE 1) u ON d.id=u.id SET d.v=u.s WHERE [mine]`},
		{"several tables", `UPDATE a, s.b AS x SET a.v=x.v WHERE a.id=x.id`, `UPDATE a, s.b AS x SET a.v=x.v WHERE [mine] AND (a.id=x.id)`},
		{"WITH", `WITH x AS (SELECT 1 WHERE 2) UPDATE d, x SET d.v=1 WHERE a`, `WITH x AS (SELECT 1 WHERE 2) UPDATE d, x SET d.v=1 WHERE [mine] AND (a)`},
		{"a period of MariaDB's", `UPDATE d FOR PORTION OF p FROM '1' TO '2' SET v=1 WHERE a`, `UPDATE d FOR PORTION OF p FROM '1' TO '2' SET v=1 WHERE [mine] AND (a)`},
		{"behind settings of MariaDB's", `SET STATEMENT max_statement_time=1 FOR UPDATE d SET v=1`, `SET STATEMENT max_statement_time=1 FOR UPDATE d SET v=1 WHERE [mine]`},
		{"SET with a condition of its own", `UPDATE d SET v=(SELECT 1 FROM e WHERE x) WHERE a`, `UPDATE d SET v=(SELECT 1 FROM e WHERE x) WHERE [mine] AND (a)`},
		{"keywords in quotes (CASES D28)", "UPDATE `where` SET `set`=1, a.where=2 WHERE `order`='x' AND t.limit", "UPDATE `where` SET `set`=1, a.where=2 WHERE [mine] AND (`order`='x' AND t.limit)"},
		{"names that begin with digits", `UPDATE 2tab SET 1e=1, t.1e5=2 WHERE 0x1G`, `UPDATE 2tab SET 1e=1, t.1e5=2 WHERE [mine] AND (0x1G)`},
		{"strings of every kind", `UPDATE d SET a='x''y', b="x""y", c=N'n', d=_utf8'u', e=x'00', f=b'1', g='a\n\\' WHERE "where"`, `UPDATE d SET a='x''y', b="x""y", c=N'n', d=_utf8'u', e=x'00', f=b'1', g='a\n\\' WHERE [mine] AND ("where")`},
		{"question marks in strings and comments (CASES D27)", "UPDATE d SET a='?', b=\"?\", `c?`=? /* ? */ WHERE d=? -- ?", "UPDATE d SET a='?', b=\"?\", `c?`=? /* ? */ WHERE [mine] AND (d=?) -- ?"},
		{"variables", "UPDATE d SET a=@x:=1, b=@`where`, c=@'set', d=@@session.sql_mode WHERE @v", "UPDATE d SET a=@x:=1, b=@`where`, c=@'set', d=@@session.sql_mode WHERE [mine] AND (@v)"},
		{"JSON and dates of ODBC", `UPDATE d SET a=j->>'$.where', b={ts '2020-01-01'} WHERE j->'$.a'`, `UPDATE d SET a=j->>'$.where', b={ts '2020-01-01'} WHERE [mine] AND (j->'$.a')`},
		{"brackets that call nothing, and functions of the server", `UPDATE d JOIN (SELECT a FROM e GROUP BY (a)) AS t (x) USING (x) SET v=CHAR(a USING utf8), w=CAST(b AS DECIMAL (5,2)) WHERE a IN (1) AND (b) OR NOT (c) AND EXISTS (SELECT 1) AND st_x(p) = ANY (SELECT 2)`,
			`UPDATE d JOIN (SELECT a FROM e GROUP BY (a)) AS t (x) USING (x) SET v=CHAR(a USING utf8), w=CAST(b AS DECIMAL (5,2)) WHERE [mine] AND (a IN (1) AND (b) OR NOT (c) AND EXISTS (SELECT 1) AND st_x(p) = ANY (SELECT 2))`},
		{"\\N", `UPDATE d SET a=\N WHERE b`, `UPDATE d SET a=\N WHERE [mine] AND (b)`},
		{"a vertical tab is white space", "UPDATE d\vSET v=1", "UPDATE d\vSET v=1 WHERE [mine]"},
		{"names like ours", `UPDATE d AS sqlfence_g SET sqlfence_g.at=1 WHERE sqlfence_guard`, `UPDATE d AS sqlfence_g SET sqlfence_g.at=1 WHERE [mine] AND (sqlfence_guard)`},
	})
}

func TestMySQLDeletesAreGuardedInTheirWhere(t *testing.T) {
	testShapes(t, sqlgen.MySQL, []shape{
		{"no WHERE (CASES D28)", `DELETE FROM d`, `DELETE FROM d WHERE [mine]`},
		{"a top-level NOT and OR (CASES D21)", `DELETE FROM d WHERE NOT a OR b`, `DELETE FROM d WHERE [mine] AND (NOT a OR b)`},
		{"LIMIT (CASES D26)", `DELETE FROM d LIMIT ?`, `DELETE FROM d WHERE [mine] LIMIT ?`},
		{"everything", `DELETE LOW_PRIORITY QUICK IGNORE FROM s.d PARTITION (p) AS x WHERE a ORDER BY b LIMIT 1 RETURNING *`, `DELETE LOW_PRIORITY QUICK IGNORE FROM s.d PARTITION (p) AS x WHERE [mine] AND (a) ORDER BY b LIMIT 1 RETURNING *`},
		{"RETURNING alone", `DELETE FROM d RETURNING id`, `DELETE FROM d WHERE [mine] RETURNING id`},
		{"an alias without AS", `DELETE FROM d x WHERE x.a`, `DELETE FROM d x WHERE [mine] AND (x.a)`},
		{"several, named before FROM", `DELETE a, s.b.* FROM a JOIN s.b USING (id) WHERE x OR y`, `DELETE a, s.b.* FROM a JOIN s.b USING (id) WHERE [mine] AND (x OR y)`},
		{"several, named before USING", `DELETE FROM a, b USING a JOIN b ON a.id=b.id`, `DELETE FROM a, b USING a JOIN b ON a.id=b.id WHERE [mine]`},
		{"a hint in front of FROM", `DELETE /*+ QB_NAME(x) */ FROM d WHERE a`, `DELETE /*+ QB_NAME(x) */ FROM d WHERE [mine] AND (a)`},
		{"WITH", `WITH x AS (SELECT 1) DELETE FROM d WHERE id IN (SELECT * FROM x)`, `WITH x AS (SELECT 1) DELETE FROM d WHERE [mine] AND (id IN (SELECT * FROM x))`},
		{"a period of MariaDB's", `DELETE FROM d FOR PORTION OF p FROM 1 TO 2 WHERE a`, `DELETE FROM d FOR PORTION OF p FROM 1 TO 2 WHERE [mine] AND (a)`},
		{"a leading comment", "-- a\n# b\n/* c */ DELETE FROM d", "-- a\n# b\n/* c */ DELETE FROM d WHERE [mine]"},
	})
}

func TestMySQLInsertsOfListedRows(t *testing.T) {
	const begin = `(CASE WHEN CASE WHEN EXISTS (SELECT 1 FROM DUAL WHERE NOT ([mine])) THEN (SELECT 1 UNION ALL SELECT 2) ELSE 1 END THEN `
	shapes := []shape{
		{"plain", `INSERT INTO d VALUES (1, 'a')`, `INSERT INTO d VALUES ([1], 'a')`},
		{"a parameter", `INSERT INTO d VALUES (?, ?)`, `INSERT INTO d VALUES ([?], ?)`},
		{"no space", `INSERT INTO d(a)VALUES(1);`, `INSERT INTO d(a)VALUES([1]);`},
		{"several rows", `INSERT INTO d VALUES (?, 1), (?, 2), (DEFAULT, f)`, `INSERT INTO d VALUES (?, [1]), (?, 2), (DEFAULT, f)`},
		{"everything in front of VALUES", `INSERT HIGH_PRIORITY s.d PARTITION (p, q) (a, b) VALUE (1, ?)`, `INSERT HIGH_PRIORITY s.d PARTITION (p, q) (a, b) VALUE ([1], ?)`},
		{"REPLACE", `REPLACE LOW_PRIORITY d VALUES (?)`, `REPLACE LOW_PRIORITY d VALUES ([?])`},
		{"RETURNING", `INSERT INTO d (a) VALUES (1) RETURNING id`, `INSERT INTO d (a) VALUES ([1]) RETURNING id`},
		{"an upsert", `INSERT INTO d VALUES (1) ON DUPLICATE KEY UPDATE v=VALUES(v), id=LAST_INSERT_ID(id)`, `INSERT INTO d VALUES ([1]) ON DUPLICATE KEY UPDATE v=VALUES(v), id=LAST_INSERT_ID(id)`},
		{"a row alias", `INSERT INTO d VALUES (1, 2) AS new (a, b) ON DUPLICATE KEY UPDATE v=new.a`, `INSERT INTO d VALUES ([1], 2) AS new (a, b) ON DUPLICATE KEY UPDATE v=new.a`},
		{"SET", `INSERT INTO d SET a = b, s.d.c=?, e=1`, `INSERT INTO d SET a = b, s.d.c=?, e=[1]`},
		{"SET of another kind", "REPLACE d SET `a` := DEFAULT, b := 'x'", "REPLACE d SET `a` := DEFAULT, b := ['x']"},
		{"SET with an alias", `INSERT INTO d SET a=1 AS new ON DUPLICATE KEY UPDATE a=new.a`, `INSERT INTO d SET a=[1] AS new ON DUPLICATE KEY UPDATE a=new.a`},
		{"comments between", "INSERT INTO d VALUES /* ( */ ( -- x\n 1 /* ) */) # c", "INSERT INTO d VALUES /* ( */ ( -- x\n [1] /* ) */) # c"},
		{"the first that is plain", `INSERT INTO d VALUES (DEFAULT, NOW(), -1, 0x41, b'1', x'41', _utf8'x', N'x', 'a' 'b', "a", \N, @v, (1), DATE '2020-01-01', 1 + 1, a, (SELECT 1), ? + 1, ? IS NULL, NULL, 1)`,
			`INSERT INTO d VALUES (DEFAULT, NOW(), -1, 0x41, b'1', x'41', _utf8'x', N'x', 'a' 'b', "a", \N, @v, (1), DATE '2020-01-01', 1 + 1, a, (SELECT 1), ? + 1, ? IS NULL, [NULL], 1)`},
	}
	for _, literal := range []string{"?", "0", "007", "1.5", ".5", "1.", "1e5", "''", "'a''b'", `'a\n'`, "NULL", "true", "False"} {
		want := "(now(),[" + literal + "],2)"
		if literal == "?" { // a literal is taken before it
			want = "(now(),?,[2])"
		}
		shapes = append(shapes, shape{literal, "INSERT INTO d VALUES (now()," + literal + ",2)", "INSERT INTO d VALUES " + want})
	}
	for i := range shapes {
		open, shut := strings.Index(shapes[i].want, "["), strings.Index(shapes[i].want, "]")
		shapes[i].want = shapes[i].want[:open] + begin + shapes[i].want[open+1:shut] + " END)" + shapes[i].want[shut+1:]
	}
	testShapes(t, sqlgen.MySQL, shapes)
}

// TestMySQLTellsHowARefusalShows: rows that the text lists are refused by an
// error, everything else by writing nothing.
func TestMySQLTellsHowARefusalShows(t *testing.T) {
	for text, raises := range map[string]bool{
		`INSERT INTO d VALUES (1)`: true, `REPLACE d SET a=?`: true, `INSERT INTO d SELECT 1`: false, `UPDATE d SET a=1`: false,
	} {
		if p := sqlgen.Analyze(sqlgen.MySQL, text); p.Raises() != raises || p.AskOnZero() == raises {
			t.Errorf("%s\nraises: %v, to be asked about no row: %v", text, p.Raises(), p.AskOnZero())
		}
	}
	for text, e := range map[string]sqlgen.Engine{`SELECT 1`: sqlgen.MySQL, `INSERT IGNORE d VALUES (1)`: sqlgen.MySQL, `INSERT INTO d VALUES (1)`: sqlgen.SQLite} {
		if sqlgen.Analyze(e, text).Raises() {
			t.Errorf("%s\nraises on %v", text, e)
		}
	}
}

// TestMySQLTellsWhatReturnsRows: where a row shows, the write was not refused, and
// where none does, the fence is asked.
func TestMySQLTellsWhatReturnsRows(t *testing.T) {
	for text, returns := range map[string]bool{
		`INSERT INTO d VALUES (1) RETURNING id`: true, `INSERT INTO d VALUES (1) ON DUPLICATE KEY UPDATE v=2 RETURNING id`: true, `INSERT INTO d SELECT 1 RETURNING id`: true, `REPLACE d SET a=1 RETURNING a`: true,
		`DELETE FROM d RETURNING a`: true, `DELETE FROM d`: false, `INSERT INTO d VALUES (1)`: false, `INSERT INTO d (x) SELECT y.returning FROM y`: false,
	} {
		if p := sqlgen.Analyze(sqlgen.MySQL, text); p.Strategy != sqlgen.Splice || p.Returns() != returns {
			t.Errorf("%s\nis %v, returns rows: %v", text, p.Strategy, p.Returns())
		}
	}
}

// TestMySQLTellsWhatCarriesTheFence: a literal wherever the first row has one.
func TestMySQLTellsWhatCarriesTheFence(t *testing.T) {
	for text, wraps := range map[string]bool{
		`INSERT INTO d VALUES (?, ?)`: true, `INSERT INTO d VALUES (?, 1)`: false, `INSERT INTO d VALUES (?), (1)`: true, `INSERT INTO d SET a=?, b=NULL`: false, `REPLACE d SET a=?`: true,
		`UPDATE d SET a=?`: false, `INSERT INTO d SELECT ?`: false, `INSERT IGNORE INTO d VALUES (?)`: false,
	} {
		if p := sqlgen.Analyze(sqlgen.MySQL, text); p.WrapsParam() != wraps {
			t.Errorf("%s\nputs the fence around a parameter: %v", text, p.WrapsParam())
		}
	}
}

func TestMySQLInsertsOfQueries(t *testing.T) {
	testShapes(t, sqlgen.MySQL, []shape{
		{"plain", `INSERT INTO d SELECT a FROM y WHERE b OR c`, `INSERT INTO d SELECT a FROM y WHERE b OR c HAVING [mine]`},
		{"an aggregate", `INSERT INTO d SELECT COUNT(*) FROM y`, `INSERT INTO d SELECT COUNT(*) FROM y HAVING [mine]`},
		{"a HAVING of its own", `INSERT INTO d SELECT a FROM y GROUP BY a HAVING b OR c ORDER BY d LIMIT 1`, `INSERT INTO d SELECT a FROM y GROUP BY a HAVING [mine] AND (b OR c) ORDER BY d LIMIT 1`},
		{"a HAVING in brackets", `INSERT INTO d SELECT a FROM y HAVING(b)OR(c)`, `INSERT INTO d SELECT a FROM y HAVING [mine] AND ((b)OR(c))`},
		{"ORDER BY and LIMIT", `INSERT INTO d SELECT a FROM y ORDER BY b LIMIT 1, 2`, `INSERT INTO d SELECT a FROM y HAVING [mine] ORDER BY b LIMIT 1, 2`},
		{"locks", `INSERT INTO d SELECT a FROM y FOR UPDATE`, `INSERT INTO d SELECT a FROM y HAVING [mine] FOR UPDATE`},
		{"locks of both names", `INSERT INTO d SELECT a FROM y LOCK IN SHARE MODE`, `INSERT INTO d SELECT a FROM y HAVING [mine] LOCK IN SHARE MODE`},
		{"FETCH", `INSERT INTO d SELECT a FROM y OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY`, `INSERT INTO d SELECT a FROM y HAVING [mine] OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY`},
		{"WINDOW", `INSERT INTO d SELECT SUM(a) OVER w FROM y WINDOW w AS (ORDER BY b) ORDER BY 1`, `INSERT INTO d SELECT SUM(a) OVER w FROM y HAVING [mine] WINDOW w AS (ORDER BY b) ORDER BY 1`},
		{"FOR ORDER BY in an index hint", `INSERT INTO d SELECT a FROM y USE INDEX FOR ORDER BY (i) WHERE b ORDER BY a`, `INSERT INTO d SELECT a FROM y USE INDEX FOR ORDER BY (i) WHERE b HAVING [mine] ORDER BY a`},
		{"no FROM", `INSERT INTO d SELECT 1, ?`, `INSERT INTO d SELECT 1, ? HAVING [mine]`},
		{"in brackets", `INSERT INTO d (a) ((SELECT a FROM y))`, `INSERT INTO d (a) ((SELECT a FROM y HAVING [mine]))`},
		{"WITH inside", `INSERT INTO d WITH x AS (SELECT 1) SELECT * FROM x`, `INSERT INTO d WITH x AS (SELECT 1) SELECT * FROM x HAVING [mine]`},
		{"an upsert (CASES D25)", `INSERT INTO d SELECT a FROM y JOIN z ON y.b=z.b ON DUPLICATE KEY UPDATE v=VALUES(v)`, `INSERT INTO d SELECT a FROM y JOIN z ON y.b=z.b HAVING [mine] ON DUPLICATE KEY UPDATE v=VALUES(v)`},
		{"a set operation in a sub-select", `INSERT INTO d SELECT a FROM (SELECT 1 UNION SELECT 2) q`, `INSERT INTO d SELECT a FROM (SELECT 1 UNION SELECT 2) q HAVING [mine]`},
		{"RETURNING", `INSERT INTO d SELECT a FROM y RETURNING *`, `INSERT INTO d SELECT a FROM y HAVING [mine] RETURNING *`},
		{"REPLACE", `REPLACE d SELECT DISTINCT a FROM y -- c`, `REPLACE d SELECT DISTINCT a FROM y HAVING [mine] -- c`},
	})
}

func TestMySQLCountsTheParametersBeforeTheFence(t *testing.T) {
	for _, c := range []struct {
		text       string
		params, at int
	}{
		{`UPDATE d SET v=? WHERE a`, 1, 1},
		{`UPDATE d SET v=? WHERE a=? ORDER BY ? LIMIT ?`, 4, 1},
		{`UPDATE d SET v=? LIMIT ?`, 2, 1},
		{`UPDATE d SET v='?' /* ? */ WHERE a=?`, 1, 0},
		{`UPDATE d JOIN (SELECT ? AS a) x SET v=?, w=? WHERE b=?`, 4, 3},
		{`DELETE FROM d WHERE a=? OR b=?`, 2, 0},
		{`INSERT INTO d VALUES (?, ?) RETURNING ?`, 3, 0},
		{`INSERT INTO d VALUES (f, ? + 1, ?), (?, ?, ?)`, 5, 1},
		{`INSERT INTO d SET a=1, b=? ON DUPLICATE KEY UPDATE a=?`, 2, 0},
		{`INSERT INTO d SELECT ?, ? FROM y WHERE a=? HAVING b=? LIMIT ?`, 5, 3},
		{`INSERT INTO d SELECT a FROM y WHERE b=? ON DUPLICATE KEY UPDATE v=?`, 2, 1},
		{`INSERT INTO d VALUES (?), (?)`, 2, 0},
		{`SELECT ?`, 1, 1},
	} {
		if p := sqlgen.Analyze(sqlgen.MySQL, c.text); p.Params != c.params || p.At != c.at {
			t.Errorf("%s\ntakes %d parameters, %d before the fence, expected %d and %d", c.text, p.Params, p.At, c.params, c.at)
		}
	}
	for _, e := range []sqlgen.Engine{sqlgen.PostgreSQL, sqlgen.SQLite} {
		text := map[sqlgen.Engine]string{sqlgen.PostgreSQL: `UPDATE d SET v=$2 WHERE a=$1`, sqlgen.SQLite: `UPDATE d SET v=? WHERE a=?`}[e]
		if p := sqlgen.Analyze(e, text); p.At != 2 {
			t.Errorf("%v: %s\nthe fence's go to %d, expected behind the user's", e, text, p.At)
		}
	}
}
