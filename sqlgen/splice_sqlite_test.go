package sqlgen_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestSQLiteUpdatesAndDeletesAreGuardedInTheirWhere(t *testing.T) {
	testShapes(t, sqlgen.SQLite, []shape{
		{"no WHERE", `DELETE FROM d`, `DELETE FROM d WHERE [fence 1]`},
		{"no WHERE but RETURNING", `DELETE FROM d RETURNING id`, `DELETE FROM d WHERE [fence 1] RETURNING id`},
		{"an OR at the top (CASES D21)", `UPDATE d SET v='x' WHERE id=1 OR id=2`, `UPDATE d SET v='x' WHERE (id=1 OR id=2) AND [fence 1]`},
		{"a trailing comment (CASES D22)", `UPDATE d SET v='x' WHERE id=1 -- note`, `UPDATE d SET v='x' WHERE (id=1) AND [fence 1] -- note`},
		{"a comment without an end", `DELETE FROM d /* WHERE`, `DELETE FROM d WHERE [fence 1] /* WHERE`},
		{"a comment that does not nest", `DELETE FROM d /* /* */ WHERE a`, `DELETE FROM d /* /* */ WHERE (a) AND [fence 1]`},
		{"a carriage return does not end a comment", "DELETE FROM d -- x\rWHERE a", "DELETE FROM d WHERE [fence 1] -- x\rWHERE a"},
		{"a semicolon", `DELETE FROM d WHERE a; -- c`, `DELETE FROM d WHERE (a) AND [fence 1]; -- c`},
		{"OR IGNORE, schema and alias", `UPDATE OR IGNORE main.d AS x SET v=1 WHERE x.id=1`, `UPDATE OR IGNORE main.d AS x SET v=1 WHERE (x.id=1) AND [fence 1]`},
		{"INDEXED BY (CASES D26)", `UPDATE d INDEXED BY i SET v=1 WHERE a`, `UPDATE d INDEXED BY i SET v=1 WHERE (a) AND [fence 1]`},
		{"NOT INDEXED", `DELETE FROM d NOT INDEXED WHERE a`, `DELETE FROM d NOT INDEXED WHERE (a) AND [fence 1]`},
		{"FROM", `UPDATE d SET v=u.s FROM (SELECT 1 AS s WHERE 1) u WHERE d.id=u.s`, `UPDATE d SET v=u.s FROM (SELECT 1 AS s WHERE 1) u WHERE (d.id=u.s) AND [fence 1]`},
		{"ORDER BY and LIMIT", `DELETE FROM d WHERE a ORDER BY b LIMIT 1`, `DELETE FROM d WHERE (a) AND [fence 1] ORDER BY b LIMIT 1`},
		{"LIMIT behind RETURNING", `UPDATE d SET v=1 RETURNING v LIMIT 1`, `UPDATE d SET v=1 WHERE [fence 1] RETURNING v LIMIT 1`},
		{"WITH", `WITH x AS (SELECT 1) DELETE FROM d WHERE id IN x`, `WITH x AS (SELECT 1) DELETE FROM d WHERE (id IN x) AND [fence 1]`},
		{"every kind of quotes", "UPDATE [d] SET `where`=1, \"set\"=2, 'v'=3 WHERE [a b]", "UPDATE [d] SET `where`=1, \"set\"=2, 'v'=3 WHERE ([a b]) AND [fence 1]"},
		{"a backslash is nothing special", `UPDATE d SET v='x\' WHERE a`, `UPDATE d SET v='x\' WHERE (a) AND [fence 1]`},
		{"a byte order mark is white space", "\ufeffDELETE FROM d \ufeffWHERE a", "\ufeffDELETE FROM d \ufeffWHERE (a) AND [fence 1]"},
		{"the operators of JSON", `UPDATE d SET v = j->>'$.where' WHERE j->'a'`, `UPDATE d SET v = j->>'$.where' WHERE (j->'a') AND [fence 1]`},
		{"blobs", `UPDATE d SET v = x'00' WHERE a = X'FF'`, `UPDATE d SET v = x'00' WHERE (a = X'FF') AND [fence 1]`},
		{"columns named with and replace", `UPDATE d SET with = 1, replace = 2 WHERE replace = with`, `UPDATE d SET with = 1, replace = 2 WHERE (replace = with) AND [fence 1]`},
	})
}

func TestSQLiteInsertsOfRows(t *testing.T) {
	testShapes(t, sqlgen.SQLite, []shape{
		{"VALUES", `INSERT INTO d VALUES (1, 'a'), (NULL, x'00')`, `INSERT INTO d SELECT * FROM (VALUES (1, 'a'), (NULL, x'00')) WHERE [fence 1]`},
		{"columns and RETURNING", `INSERT INTO d (a) VALUES (1) RETURNING a`, `INSERT INTO d (a) SELECT * FROM (VALUES (1)) WHERE [fence 1] RETURNING a`},
		{"no space in front of VALUES", `INSERT INTO d(a)VALUES(1);`, `INSERT INTO d(a)SELECT * FROM (VALUES(1)) WHERE [fence 1];`},
		{"OR REPLACE", `INSERT OR REPLACE INTO d VALUES (1)`, `INSERT OR REPLACE INTO d SELECT * FROM (VALUES (1)) WHERE [fence 1]`},
		{"REPLACE", `REPLACE INTO main.d AS x VALUES (1)`, `REPLACE INTO main.d AS x SELECT * FROM (VALUES (1)) WHERE [fence 1]`},
		{"DO NOTHING (CASES D25)", `INSERT INTO d VALUES (1) ON CONFLICT DO NOTHING`, `INSERT INTO d SELECT * FROM (VALUES (1)) WHERE [fence 1] ON CONFLICT DO NOTHING`},
		{"several ON CONFLICT", `INSERT INTO d VALUES (1) ON CONFLICT (a) WHERE b DO NOTHING ON CONFLICT (c) DO UPDATE SET v=excluded.v WHERE w RETURNING *`,
			`INSERT INTO d SELECT * FROM (VALUES (1)) WHERE [fence 1] ON CONFLICT (a) WHERE b DO NOTHING ON CONFLICT (c) DO UPDATE SET v=excluded.v WHERE w RETURNING *`},
		{"a sub-select", `INSERT INTO d VALUES ((SELECT max(a) FROM d WHERE b LIMIT 1))`, `INSERT INTO d SELECT * FROM (VALUES ((SELECT max(a) FROM d WHERE b LIMIT 1))) WHERE [fence 1]`},
		{"WITH", `WITH x AS (SELECT 1) INSERT INTO d VALUES ((SELECT * FROM x))`, `WITH x AS (SELECT 1) INSERT INTO d SELECT * FROM (VALUES ((SELECT * FROM x))) WHERE [fence 1]`},
		{"a trailing comment", `INSERT INTO d VALUES (1) -- c`, `INSERT INTO d SELECT * FROM (VALUES (1)) WHERE [fence 1] -- c`},
	})
}

func TestSQLiteInsertsOfQueries(t *testing.T) {
	testShapes(t, sqlgen.SQLite, []shape{
		{"plain", `INSERT INTO d SELECT a FROM y WHERE b`, `INSERT INTO d SELECT a FROM y WHERE b LIMIT CASE WHEN [fence 1] THEN -1 ELSE 0 END`},
		{"upsert, with the WHERE that it needs (CASES D25)", `INSERT INTO d SELECT a FROM y WHERE true ON CONFLICT (a) DO UPDATE SET b=1`,
			`INSERT INTO d SELECT a FROM y WHERE true LIMIT CASE WHEN [fence 1] THEN -1 ELSE 0 END ON CONFLICT (a) DO UPDATE SET b=1`},
		{"an aggregate", `INSERT INTO d SELECT count(*) FROM y`, `INSERT INTO d SELECT count(*) FROM y LIMIT CASE WHEN [fence 1] THEN -1 ELSE 0 END`},
		{"ORDER BY", `INSERT INTO d SELECT a FROM y ORDER BY b`, `INSERT INTO d SELECT a FROM y ORDER BY b LIMIT CASE WHEN [fence 1] THEN -1 ELSE 0 END`},
		{"LIMIT", `INSERT INTO d SELECT a FROM y LIMIT 5`, `INSERT INTO d SELECT a FROM y LIMIT CASE WHEN [fence 1] THEN ( 5) ELSE 0 END`},
		{"LIMIT and OFFSET", `INSERT INTO d SELECT a FROM y LIMIT 5 OFFSET 2`, `INSERT INTO d SELECT a FROM y LIMIT CASE WHEN [fence 1] THEN ( 5) ELSE 0 END OFFSET 2`},
		{"LIMIT with a comma", `INSERT INTO d SELECT a FROM y LIMIT 2, 5`, `INSERT INTO d SELECT a FROM y LIMIT 2, CASE WHEN [fence 1] THEN ( 5) ELSE 0 END`},
		{"LIMIT without a space", `INSERT INTO d SELECT a FROM y LIMIT(5)`, `INSERT INTO d SELECT a FROM y LIMIT CASE WHEN [fence 1] THEN ((5)) ELSE 0 END`},
		{"UNION", `INSERT INTO d SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 3`, `INSERT INTO d SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 3 LIMIT CASE WHEN [fence 1] THEN -1 ELSE 0 END`},
		{"VALUES in front of a UNION", `INSERT INTO d SELECT 1 UNION SELECT * FROM (VALUES (1))`, `INSERT INTO d SELECT 1 UNION SELECT * FROM (VALUES (1)) LIMIT CASE WHEN [fence 1] THEN -1 ELSE 0 END`},
		{"WITH in front", `WITH x AS (SELECT 1) INSERT INTO d SELECT * FROM x`, `WITH x AS (SELECT 1) INSERT INTO d SELECT * FROM x LIMIT CASE WHEN [fence 1] THEN -1 ELSE 0 END`},
		{"WITH behind", `INSERT INTO d WITH x AS (SELECT 1 LIMIT 1) SELECT * FROM x RETURNING *`,
			`INSERT INTO d WITH x AS (SELECT 1 LIMIT 1) SELECT * FROM x LIMIT CASE WHEN [fence 1] THEN -1 ELSE 0 END RETURNING *`},
		{"a join on a column of the name conflict", `INSERT INTO d SELECT 1 FROM y JOIN z ON conflict = 1`, `INSERT INTO d SELECT 1 FROM y JOIN z ON conflict = 1 LIMIT CASE WHEN [fence 1] THEN -1 ELSE 0 END`},
		{"a column of the name offset", `INSERT INTO d SELECT offset FROM y LIMIT 1`, `INSERT INTO d SELECT offset FROM y LIMIT CASE WHEN [fence 1] THEN ( 1) ELSE 0 END`},
	})
}

func TestSQLiteParametersKeepTheirNumbers(t *testing.T) {
	testShapes(t, sqlgen.SQLite, []shape{
		{"anonymous ones are numbered", `UPDATE d SET v=? WHERE id=?`, `UPDATE d SET v=?1 WHERE (id=?2) AND [fence 3]`},
		{"numbered ones stay", `UPDATE d SET v=?2 WHERE id=?1`, `UPDATE d SET v=?2 WHERE (id=?1) AND [fence 3]`},
		{"an anonymous one takes the highest number plus one", `UPDATE d SET v=?5, w=? WHERE id=?1 AND x=?`, `UPDATE d SET v=?5, w=?6 WHERE (id=?1 AND x=?7) AND [fence 8]`},
		{"named ones stay, and count at their first place", `UPDATE d SET v=:a, w=@b, x=$c WHERE id=:a AND y=?`, `UPDATE d SET v=:a, w=@b, x=$c WHERE (id=:a AND y=?4) AND [fence 5]`},
		{"the same name with another sign is another parameter", `UPDATE d SET v=:a WHERE id=@a`, `UPDATE d SET v=:a WHERE (id=@a) AND [fence 3]`},
		{"all of CASES D27", `UPDATE d SET v=?1 WHERE a=:a AND b=@b AND c=$c`, `UPDATE d SET v=?1 WHERE (a=:a AND b=@b AND c=$c) AND [fence 5]`},
		{"a named one behind the fence that was there before", `DELETE FROM d WHERE id=:a RETURNING :a`, `DELETE FROM d WHERE (id=:a) AND [fence 2] RETURNING :a`},
		{"anonymous ones behind the fence", `INSERT INTO d VALUES (?) ON CONFLICT DO UPDATE SET v=?`, `INSERT INTO d SELECT * FROM (VALUES (?1)) WHERE [fence 3] ON CONFLICT DO UPDATE SET v=?2`},
		{"in a LIMIT", `INSERT INTO d SELECT ? LIMIT ?, ?`, `INSERT INTO d SELECT ?1 LIMIT ?2, CASE WHEN [fence 4] THEN ( ?3) ELSE 0 END`},
		{"none in strings, names and comments", `UPDATE d SET v='?', "?"=1 WHERE [:a]=? -- ?`, `UPDATE d SET v='?', "?"=1 WHERE ([:a]=?1) AND [fence 2] -- ?`},
		{"one that a word follows at once", `UPDATE d SET v=?WHERE id=?`, `UPDATE d SET v=?1WHERE (id=?2) AND [fence 3]`},
	})
}

func TestSQLiteWritesThatAreCheckedFirst(t *testing.T) {
	for _, c := range []struct{ name, text, reason string }{
		{"DEFAULT VALUES", `INSERT INTO d DEFAULT VALUES`, "DEFAULT VALUES takes no condition"},
		{"an aggregate in VALUES", `INSERT INTO d VALUES (count(*))`, "an aggregate in VALUES is an error, and behind SELECT is none"},
		{"a window function in VALUES", `INSERT INTO d VALUES (my_own(1) OVER ())`, "an aggregate in VALUES is an error, and behind SELECT is none"},
		{"VALUES in a compound query", `INSERT INTO d SELECT 1 UNION ALL VALUES (2)`, "a compound query with VALUES takes no LIMIT"},
		{"VALUES at the front of one", `INSERT INTO d VALUES (1) UNION SELECT 2`, "a compound query with VALUES takes no LIMIT"},
		{"a named parameter behind the fence", `DELETE FROM d WHERE a=:a RETURNING :b`, "a named parameter stands behind the place of the fence"},
		{"a named parameter in an upsert", `INSERT INTO d VALUES (:a) ON CONFLICT DO UPDATE SET v=@b`, "a named parameter stands behind the place of the fence"},
		{"an anonymous parameter in RETURNING", `DELETE FROM d RETURNING a || ?`, "a column is named after its text, which would change"},
		{"a condition that begins with a column named with", `DELETE FROM d WHERE with = 1`, "a bracket before WITH begins a query"},
		{"another database", `UPDATE aux.d SET v=1`, "the fence is in main, and the statement locks another database"},
		{"the temporary database", `INSERT INTO "temp".d VALUES (1)`, "the fence is in main, and the statement locks another database"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sqlgen.Analyze(sqlgen.SQLite, c.text)
			if p.Strategy != sqlgen.CheckFirst || p.Reason != c.reason || len(p.Tables) != 1 || p.Tables[0].Name != "d" {
				t.Errorf("%s\nis %v because %q, tables %v; expected to be checked first because %q", c.text, p.Strategy, p.Reason, p.Tables, c.reason)
			}
			if text, err := p.Guarded(1); err == nil {
				t.Errorf("Guarded returned %s", text)
			}
		})
	}
}
