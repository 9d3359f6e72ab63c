package twin_test

import (
	"database/sql"
	"fmt"
	"strings"
)

// twinStatement is a write that is tried bare and guarded.
type twinStatement struct {
	text   string
	args   []any
	fails  bool   // on its own too
	none   bool   // changes no table
	since  int    // major version of PostgreSQL
	before string // executed before it in the same transaction
}

func sqliteTwinStatements() []twinStatement {
	var all []twinStatement
	add := func(texts ...string) {
		for _, t := range texts {
			all = append(all, twinStatement{text: t})
		}
	}
	with := func(text string, args ...any) { all = append(all, twinStatement{text: text, args: args}) }
	fail := func(texts ...string) {
		for _, t := range texts {
			all = append(all, twinStatement{text: t, fails: true})
		}
	}
	none := func(texts ...string) {
		for _, t := range texts {
			all = append(all, twinStatement{text: t, none: true})
		}
	}

	// UPDATE
	add(`UPDATE d SET v = 'x' WHERE id = 1`, `UPDATE d SET v = 'x' WHERE id = 1 OR id = 2`, `UPDATE d SET v = 'x'`, `UPDATE d SET v = 'x' WHERE NOT id = 1 OR v IS NULL`,
		`UPDATE d SET n = '3.0', r = 3, b = 'blob', x = 1.0 WHERE id = 1 AND x = '1' OR v = 'b'`, `UPDATE d SET n = x, r = n, x = r, b = b || 'q'`,
		`UPDATE d SET (v, n) = (SELECT b, a FROM e WHERE e.a = d.id) WHERE id < 3 RETURNING id, v, n, typeof(n)`, `UPDATE d SET v = upper(v) RETURNING *`,
		`UPDATE d SET id = id + 10 WHERE id > 1`, `UPDATE OR REPLACE d SET u = 'one' WHERE id = 2`, `UPDATE OR IGNORE d SET u = 'ONE'`, `UPDATE OR IGNORE d SET id = 1, v = 'moved' WHERE id = 2 OR v IS NULL OR id = 1`,
		`UPDATE d SET v = e.b FROM e WHERE e.a = d.id`, `UPDATE d AS q SET v = s.b FROM (SELECT a, b FROM e WHERE a > 1 ORDER BY a LIMIT 1) AS s WHERE q.id = s.a RETURNING id, v`,
		`UPDATE d SET v = e.b || f.b FROM e JOIN e AS f ON e.a = f.a WHERE e.a = d.id OR f.a = 99`, `UPDATE d INDEXED BY d_v SET n = 5 WHERE v = 'a'`, `UPDATE d NOT INDEXED SET n = 5 WHERE v = 'a' OR v = 'b'`,
		`UPDATE main.d SET v = (SELECT count(*) FROM d WHERE id > 1) WHERE id IN (SELECT a FROM e)`, `UPDATE d SET v = 'c' WHERE id BETWEEN 1 AND 2 OR id = 5`, `UPDATE d SET v = CASE WHEN id = 1 THEN 'one' ELSE 'other' END`,
		`WITH s(a) AS (SELECT 1 UNION SELECT 2) UPDATE d SET v = 'w' WHERE id IN s`, `WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < 5) UPDATE d SET v = (SELECT sum(n) FROM k) WHERE id IN (SELECT n FROM k)`,
		`UPDATE g SET a = a + 1 WHERE thrice > 3 RETURNING a, twice, thrice`, `UPDATE w SET v = v + 1 WHERE k = 'a' OR j = 1`, `UPDATE w SET j = j + 10 WHERE k = 'a'`, `UPDATE c SET p = p + 1 WHERE id = 1 OR p = 2`,
		`UPDATE ev SET b = 'via view' WHERE a = 1 OR a = 2`, `UPDATE ft SET t = 'another fox' WHERE ft MATCH 'fox'`, `UPDATE ft SET t = 'dogs' WHERE rowid = 2`, `UPDATE "where" SET "set" = 2 WHERE "update" = 'a'`,
		`UPDATE d SET v = 'it''s; WHERE' /* WHERE */ WHERE id = 1 -- note`, "/* a */ -- b\nUPDATE d SET v = 'q' WHERE id = 1 OR 0;", `UPDATE d SET x = sqlfence_f FROM (SELECT 5 AS sqlfence_f) WHERE id = 1`,
		`WITH sqlfence_fences AS (SELECT 'job' AS resource, 6 AS high_water, 70 AS grant_id) UPDATE d SET v = (SELECT high_water FROM sqlfence_fences) WHERE id = 1`,
		`UPDATE d SET v = e.b FROM e AS sqlfence_f JOIN e ON e.a = sqlfence_f.a WHERE e.a = d.id`, `UPDATE d SET v = 1 WHERE [id] = 1 OR "id" = 2 OR `+"`id` = 5", "\ufeffUPDATE d SET v = 'bom' \ufeffWHERE id = 1",
		`UPDATE d SET x = json_object('a', json('[1]')) ->> '$.a' WHERE json_extract('{"a":1}', '$.a') = id`, `UPDATE d SET v = group_concat(e.b) OVER () FROM e WHERE e.a = d.id`)
	none(`UPDATE d SET v = 'x' WHERE 1 = 0`, `UPDATE d SET v = 'x' WHERE id IN ()`, `UPDATE d SET v = 'x' WHERE id = 999 RETURNING id`, `UPDATE d SET v = v`, `UPDATE d SET v = 'x' WHERE NULL`)
	fail(`UPDATE d SET u = 'one' WHERE id = 2`, `UPDATE c SET p = NULL`, `UPDATE c SET id = 100 WHERE id = 1`, `UPDATE OR ABORT d SET u = 'same'`, `UPDATE d SET nowhere = 1`, `UPDATE nowhere SET v = 1`, `UPDATE g SET twice = 1`)
	with(`UPDATE d SET v = ?, n = ? WHERE id = ? OR id = ?`, "p", 1.5, 1, 2)
	with(`UPDATE d SET v = ?2, n = ?1 WHERE id = ?3 RETURNING ?2`, 7, "seven", 1)
	with(`UPDATE d SET v = :v, x = @x WHERE id = $id OR v = :v`, sql.Named("v", "named"), sql.Named("x", []byte{1}), sql.Named("id", 2))
	with(`UPDATE d SET v = ?1 WHERE id = ?2 RETURNING id, ?1`, "p", 1)
	with(`UPDATE d SET b = ?, x = ?, r = ?, n = ? WHERE id = 1`, []byte{0, 255}, nil, 3, "007")
	with(`UPDATE d SET v=?WHERE id=?`, "glued", 1)

	// DELETE
	add(`DELETE FROM d`, `DELETE FROM d WHERE id = 1 OR v = 'b'`, `DELETE FROM d WHERE NOT v = 'a' OR v IS NULL RETURNING *`, `DELETE FROM d AS q WHERE q.id IN (SELECT a FROM e WHERE a < 2)`,
		`DELETE FROM d INDEXED BY d_v WHERE v = 'a'`, `DELETE FROM w WHERE k = 'a' OR v = 3`, `DELETE FROM c WHERE p = 2 OR id = 1`, `DELETE FROM ev WHERE a = 1`, `DELETE FROM ft WHERE ft MATCH 'dog OR fox'`,
		`WITH s AS (SELECT min(id) AS m FROM d) DELETE FROM d WHERE id = (SELECT m FROM s)`, `DELETE FROM e WHERE typeof(a) = 'text' OR b IS NULL; -- done`, `DELETE FROM d WHERE EXISTS (SELECT 1 FROM e WHERE e.a = d.id)`,
		`DELETE FROM e WHERE a = 1 OR (b = 'y' AND a = 2) RETURNING a, b AS "order"`, `DELETE FROM "where"`, `DELETE FROM e WHERE a GLOB '[1-2]' COLLATE nocase`, `DELETE FROM d WHERE (id, v) = (1, 'a')`)
	none(`DELETE FROM d WHERE 1 = 0`, `DELETE FROM d WHERE id = 999 RETURNING *`)
	with(`DELETE FROM d WHERE id = ? OR v = ?`, 1, "b")

	// INSERT of rows
	add(`INSERT INTO d (v) VALUES ('new')`, `INSERT INTO d (v) VALUES ('p'), ('q'), (NULL) RETURNING id, v, i`, `INSERT INTO d (n, r, b, x) VALUES ('1', 1, 'b', 1.0), (1, '1', x'01', '1'), (1.5, NULL, 1, NULL), ('x', 'y', 1.5, x'')`,
		`INSERT INTO d VALUES (7, 1, 2, 3, 4, 5, 6, 'seven')`, `INSERT INTO d (id, v) VALUES (CAST('20' AS INTEGER), CAST(5 AS TEXT)), (21, 5 || '')`, `INSERT OR REPLACE INTO d (id, v) VALUES (1, 'replaced'), (3, 'new')`,
		`INSERT OR IGNORE INTO d (id, v) VALUES (1, 'ignored'), (3, 'new')`, `REPLACE INTO d (id, u) VALUES (9, 'one')`, `INSERT INTO e VALUES ("text in double quotes", 'y')`, `INSERT INTO auto (v) VALUES ('ten'), ('eleven')`,
		`INSERT INTO g (a) VALUES (5), ('6'), (7.0)`, `INSERT INTO w VALUES ('c', 1, 'x'), ('c', '2', 1.0)`, `INSERT INTO st VALUES (1, 2, 'any'), ('3', 4, x'05')`, `INSERT INTO c VALUES (3, 3), (4, 4)`, `INSERT INTO ev VALUES (8, 'eight')`,
		`INSERT INTO ft VALUES ('new text', 3)`, `INSERT INTO ft (ft, rank) VALUES ('rank', 'bm25(10.0, 5.0)')`, `INSERT INTO "where" ("set") VALUES (9)`, `INSERT INTO d (v, n) VALUES ((SELECT b FROM e WHERE a = 1), (SELECT count(*) FROM d)), ('z', (SELECT count(*) FROM d))`,
		`INSERT INTO d (id, u) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET u = excluded.u, v = d.v || excluded.u`, `INSERT INTO d (id, u, v) VALUES (3, 'three', 'a'), (1, 'x', 'b') ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE d.v <> excluded.v RETURNING id, v`,
		`INSERT INTO d AS t (id, u) VALUES (6, 'ONE') ON CONFLICT (u) DO UPDATE SET v = t.v || '+' ON CONFLICT DO NOTHING`, `INSERT INTO d (id, v) VALUES (1, 'x'), (4, 'y') ON CONFLICT DO NOTHING`, `INSERT INTO w VALUES ('a', 1, 9) ON CONFLICT (k, j) DO UPDATE SET v = v + excluded.v`,
		`WITH s(m) AS (SELECT max(id) FROM d) INSERT INTO d (id, v) VALUES ((SELECT m FROM s) + 1, 'cte')`, `INSERT INTO xs VALUES (1, 'a')`, `INSERT INTO e VALUES (1 IN (1, 2), 'a' LIKE 'A'), (NULL IS NULL, NOT 1)`, `INSERT INTO e VALUES (-9223372036854775808, 1e400), (0x7f, .5)`,
		`INSERT INTO e(b, a) VALUES ('swapped', 1); -- VALUES`, `INSERT INTO main.e VALUES (json('{"a" : 1}'), date('2024-01-01'))`)
	none(`INSERT INTO d (id) VALUES (1) ON CONFLICT DO NOTHING`, `INSERT OR IGNORE INTO d (id) VALUES (1), (2)`, `INSERT INTO d (id, v) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE d.v <> excluded.v`)
	fail(`INSERT INTO d (id) VALUES (1)`, `INSERT INTO c VALUES (3, NULL)`, `INSERT INTO c VALUES (3, 3), (100, 1)`, `INSERT INTO st VALUES ('x', 1, 1)`, `INSERT INTO d (id, v) VALUES (1)`, `INSERT INTO e VALUES (1, 2), (3)`, `INSERT INTO g (twice) VALUES (1)`, `INSERT INTO w (k) VALUES ('only')`)
	with(`INSERT INTO d (v, n, b, x) VALUES (?, ?, ?, ?), (?, ?, ?, ?) RETURNING id`, "a", "5", []byte("b"), 1, "c", 5, nil, 2.0)
	with(`INSERT INTO d (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = ? WHERE d.id = ?`, 1, "new", "upserted", 1)
	with(`INSERT INTO d (id, v) VALUES (:id, :v) ON CONFLICT (id) DO UPDATE SET v = :v`, sql.Named("id", 1), sql.Named("v", "named"))
	var thousand []any
	for i := range 1000 {
		thousand = append(thousand, 1000+i, fmt.Sprint("v", i), float64(i)/2)
	}
	with(`INSERT INTO d (id, v, r) VALUES `+strings.Repeat("(?, ?, ?), ", 999)+`(?, ?, ?)`, thousand...)
	add(`INSERT INTO e VALUES ` + strings.Repeat("(1, 'x'), (2.5, NULL), ", 600) + `(3, x'00')`)

	// INSERT of queries
	// Words that only a bracket keeps apart.
	add("INSERT INTO d(v)SELECT b FROM e ORDER BY(a)LIMIT(1)OFFSET 1", "INSERT INTO d(v)SELECT b FROM e ORDER BY(a)LIMIT(2)RETURNING id", "INSERT INTO d(v)SELECT b FROM e ORDER BY(a)RETURNING id",
		"INSERT INTO d(id,v)SELECT(9),'x'LIMIT(1)ON CONFLICT(id)DO NOTHING", "INSERT INTO d(v)SELECT b FROM e UNION SELECT('x')LIMIT(0),(1)RETURNING(id)", "INSERT INTO d(v)VALUES('x')RETURNING(id)",
		"UPDATE d SET v='x'WHERE(id=1)RETURNING(id)", "DELETE FROM d WHERE(id=1)RETURNING(id)", "WITH a AS(SELECT(1))DELETE FROM d WHERE(1)AND(id=2)RETURNING(id)")
	add(`INSERT INTO d (v, n) SELECT b, a FROM e`, `INSERT INTO d (v) SELECT b FROM e WHERE a > 1 ORDER BY a DESC RETURNING id, v`, `INSERT INTO d (v, x) SELECT b, a FROM e ORDER BY a DESC LIMIT 2`, `INSERT INTO d (v) SELECT b FROM e ORDER BY a LIMIT 2 OFFSET 1`,
		`INSERT INTO d (v) SELECT b FROM e ORDER BY a LIMIT 1, 2`, `INSERT INTO d (v) SELECT b FROM e ORDER BY a LIMIT (SELECT 2)`, `INSERT INTO d (v) SELECT b FROM e ORDER BY a LIMIT '2' OFFSET '1'`, `INSERT INTO d (v) SELECT b FROM e ORDER BY a LIMIT -1 OFFSET 3`, `INSERT INTO e SELECT count(*), group_concat(b) FROM e`,
		`INSERT INTO e SELECT a, b FROM e`, `INSERT INTO e SELECT a, count(*) FROM e GROUP BY typeof(a) HAVING count(*) > 1`, `INSERT INTO e SELECT 1, 2 UNION SELECT 2, 3 UNION ALL SELECT 1, 2`, `INSERT INTO e SELECT a, b FROM e EXCEPT SELECT 1, 'x' ORDER BY 2 LIMIT 2`, `INSERT INTO e SELECT DISTINCT typeof(a), 1 FROM e`,
		`INSERT INTO e SELECT 10, 11`, `WITH s AS (SELECT 5 AS a) INSERT INTO e SELECT a, 'w' FROM s`, `INSERT INTO e WITH s AS (SELECT a FROM e LIMIT 1) SELECT a, 'inner' FROM s`, `INSERT INTO e WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k LIMIT 5) SELECT n, n * n FROM k`,
		`INSERT OR REPLACE INTO d (id, v) SELECT a, b FROM e`, `INSERT OR IGNORE INTO d (id, v) SELECT a, b FROM e`, `INSERT INTO d (id, v) SELECT a, b FROM e WHERE true ON CONFLICT (id) DO UPDATE SET v = excluded.v || '!' RETURNING id, v`, `INSERT INTO d (id, v) SELECT a, b FROM e WHERE 1 ON CONFLICT DO NOTHING`,
		`INSERT INTO d (id, v) SELECT a, b FROM e ORDER BY a DESC LIMIT 3 ON CONFLICT (id) DO UPDATE SET v = excluded.v`, `INSERT INTO xs SELECT * FROM ys`, `INSERT INTO xs SELECT * FROM ys ORDER BY a DESC`, `INSERT INTO auto (v) SELECT b FROM e`, `INSERT INTO c SELECT a + 10, a FROM e WHERE typeof(a) = 'integer'`,
		`INSERT INTO ev SELECT a + 10, b FROM e WHERE a < 3`, `INSERT INTO ft SELECT b, a FROM e`, `INSERT INTO g (a) SELECT a FROM e`, `INSERT INTO w SELECT 'z', a, b FROM e WHERE typeof(a) = 'integer'`, `INSERT INTO e SELECT e.a, f.b FROM e JOIN e AS f ON e.a = f.a LEFT JOIN d ON d.id = e.a`,
		`INSERT INTO e SELECT row_number() OVER (ORDER BY a DESC), b FROM e WINDOW z AS (ORDER BY a)`, `INSERT INTO e SELECT * FROM (VALUES (7, 'seven'), (8, 'eight')) WHERE column1 > 7`, `REPLACE INTO d (id, v) SELECT id, v || '2' FROM d ORDER BY id DESC LIMIT 2;`, `INSERT INTO e SELECT value, key FROM json_each('[4, 5.5, "x", null]')`,
		`INSERT INTO e SELECT * FROM (SELECT a, b FROM e ORDER BY a LIMIT 3) LIMIT 2 OFFSET 1 -- LIMIT 1`, `INSERT INTO e SELECT conflict, 1 FROM (SELECT 1 AS conflict) JOIN d ON conflict = d.id`)
	none(`INSERT INTO e SELECT a, b FROM e WHERE 1 = 0`, `INSERT INTO e SELECT 1, 2 LIMIT 0`, `INSERT INTO e SELECT 1, 2 LIMIT 1 OFFSET 1 RETURNING a`)
	fail(`INSERT INTO d (id) SELECT a FROM e`, `INSERT INTO e SELECT a FROM e`, `INSERT INTO e SELECT 1, 2 LIMIT 'x'`, `INSERT INTO e SELECT 1, 2 LIMIT NULL`)
	with(`INSERT INTO e SELECT a, ? FROM e WHERE a > ? ORDER BY a LIMIT ? OFFSET ?`, "arg", 0, 2, 1)
	with(`INSERT INTO e SELECT a, ? FROM e ORDER BY a LIMIT ?, ?`, "arg", 1, 2)
	with(`INSERT INTO d (id, v) SELECT a, ? FROM e WHERE a < ? ON CONFLICT (id) DO UPDATE SET v = ?`, "arg", 9, "up")
	return all
}
