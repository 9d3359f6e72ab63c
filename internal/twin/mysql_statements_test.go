package twin_test

import (
	"fmt"
	"strings"
	"time"
)

func mysqlTwinStatements(maria bool) []twinStatement {
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

	// UPDATE of one table
	add(`UPDATE d SET v = 'x' WHERE id = 1`, `UPDATE d SET v = 'x' WHERE id = 1 OR id = 2`, `UPDATE d SET v = 'x'`, `UPDATE d SET v = 'x' WHERE NOT id = 1 OR v IS NULL`,
		`UPDATE d SET v = 'x' WHERE id = 1 && v = 'a' || id = 5`, `UPDATE d SET v = 'x' WHERE id = 1 XOR v = 'b'`, `UPDATE d SET n = 3.999, r = 3, b = 'blob', t = 7, bt = 3, s = 'y' WHERE id = 1`,
		`UPDATE d SET n = n + 1, r = n`, `UPDATE d SET id = id + 10 ORDER BY id DESC`, `UPDATE d SET v = 'first' ORDER BY id LIMIT 1`, `UPDATE d SET v = 'l' WHERE id > 0 OR 0 ORDER BY v DESC, id LIMIT 2`,
		`UPDATE d SET v = 'x' LIMIT 1`, `UPDATE LOW_PRIORITY d SET v = 'x' WHERE id = 2`, `UPDATE IGNORE d SET u = 'one', v = 'x' ORDER BY id`, `UPDATE LOW_PRIORITY IGNORE d SET u = IF(id = 2, 'one', 'new') WHERE id = 2 OR id = 5 ORDER BY id`,
		`UPDATE d AS q SET q.v = 'x' WHERE q.id = 1 OR q.v = 'b'`, `UPDATE d q SET v = (SELECT b FROM e WHERE e.a = q.id) WHERE id < 3`, `UPDATE d SET v = (SELECT COUNT(*) FROM e WHERE a > 1) WHERE id IN (SELECT a FROM e)`,
		`UPDATE d USE INDEX (d_v) SET n = 5 WHERE v = 'a'`, `UPDATE d FORCE INDEX (PRIMARY) IGNORE INDEX (d_v) SET n = 5 WHERE v = 'a' OR id = 2`, `UPDATE part PARTITION (p1) SET v = 'new'`, `UPDATE part PARTITION (p0, p1) SET v = 'new' WHERE k = 1 OR k = 12`,
		`UPDATE part SET k = 15 WHERE k = 1`, `UPDATE simple SET v = 'via view' WHERE id = 1 OR id = 2`, `UPDATE joined SET v = 'via view' WHERE id = 1 OR b = 'y'`, `UPDATE g SET a = a + 1 WHERE thrice > 3`, `UPDATE c SET p = p + 1 WHERE id = 1 OR p = 2`,
		`UPDATE parent SET id = id + 100`, "UPDATE `where` SET `set` = 2, `end``s` = 3 WHERE `update` = 'a'", `UPDATE 2tab SET 1col = 5 WHERE 2tab.1col = 1 OR 1col = 7`, `UPDATE d SET j = JSON_SET(j, '$.k', 5) WHERE JSON_EXTRACT(j, '$.k') = 1`,
		"UPDATE d SET v = 'q' # note\n WHERE id = 1 -- note", "/* a */ -- b\n# c\nUPDATE d SET v = 'q' WHERE id = 1 OR 0;", `UPDATE d SET v = 'it''s; WHERE' /* WHERE */ WHERE id = 1 /* note`+" */", "UPDATE d SET n = 5--1 WHERE id = 1", "UPDATE d SET n = 5 --\tcomment\n WHERE id = 1",
		`UPDATE d SET v = "double ""quotes""" WHERE id = 1`, `UPDATE d SET v = 'a\nb\\' WHERE id = 2`, `UPDATE d SET b = x'00ff', t = 0x10, bt = b'101' WHERE id = 1`, `UPDATE d SET v = _utf8mb4'ü' COLLATE utf8mb4_bin, u = N'n' WHERE id = 1`,
		`UPDATE d SET v = 'a' 'b' "c" WHERE id = 2`, `UPDATE d SET ts = '2021-01-01', da = DATE '2021-01-01' WHERE ts IS NULL`, `UPDATE d SET ts = ts + INTERVAL 1 DAY, da = {d '2022-02-02'} WHERE id = 1`, `UPDATE d SET v = @a := 'var' WHERE id = 1`,
		`UPDATE d SET i = DEFAULT, v = DEFAULT(v) WHERE id = 1 OR id = 2`, `UPDATE d SET v = IF(id = 1, 'one', 'other'), c = CASE WHEN id = 1 THEN 'green' ELSE 'red' END`,
		`UPDATE d SET v = 'x' WHERE v LIKE 'a%' OR v REGEXP '^b' OR id BETWEEN 4 AND 6`, `UPDATE d SET v = 'x' WHERE EXISTS (SELECT 1 FROM e WHERE e.a = d.id) OR id = 5`, `UPDATE d SET v = 'x' WHERE (id, v) IN ((1, 'a'), (2, 'b')) OR ROW(id, i) = ROW(5, 7)`,
		`UPDATE sqlfence_g SET at = 2 WHERE sqlfence_g.high_water = 6 OR at = 1`, `UPDATE d AS sqlfence_g SET v = 'x' WHERE sqlfence_g.id = 1`, `UPDATE d SET v = 'w' WHERE id IN (WITH x AS (SELECT 1 AS a) SELECT a FROM x)`,
		`UPDATE d SET v = id WHERE 1e0 = id OR .5e1 = id`, `UPDATE d SET v = 1.5e+3 WHERE d.id=2`, `UPDATE d SET i = LAST_INSERT_ID(42) WHERE id = 1`, `UPDATE d SET v = 'x' WHERE id <=> 1 OR id <> 5 AND id != 2`)
	none(`UPDATE d SET v = 'x' WHERE 1 = 0`, `UPDATE d SET v = 'x' WHERE id = 999`, `UPDATE d SET v = v`, `UPDATE d SET v = 'x' WHERE NULL`, `UPDATE d SET v = 'a' WHERE id = 1`, `UPDATE d SET v = 'x' LIMIT 0`)
	fail(`UPDATE d SET u = 'one' WHERE id = 2`, `UPDATE c SET p = NULL`, `UPDATE c SET id = 100 WHERE id = 1`, `UPDATE d SET nowhere = 1`, `UPDATE nowhere SET v = 1`, `UPDATE g SET twice = 1`, `UPDATE d SET v = 'much too long for the column'`, `UPDATE d SET t = -1`,
		`UPDATE simple SET id = 50 WHERE id = 1`, `UPDATE child SET parent = 99`, `UPDATE d SET v = (SELECT a FROM e)`, `UPDATE d SET c = 'blue'`, `UPDATE d SET j = '{' WHERE id = 1`, `UPDATE part SET k = 100`)
	with(`UPDATE d SET v = ?, n = ? WHERE id = ? OR id = ?`, "p", 1.5, 1, 2)
	with(`UPDATE d SET v=? WHERE(id=?)`, "glued", 1)
	with(`UPDATE d SET v = CONCAT(?, '?', "?") /* ? */ WHERE v = ? OR id = ? ORDER BY FIELD(id, ?, ?) DESC LIMIT ?`, "q", "a", 2, 1, 2, 1)
	with(`UPDATE d SET b = ?, v = ?, r = ?, n = ?, t = ?, ts = ?, j = ? WHERE id = ?`, []byte{0, 255, '\'', '\\'}, nil, 3.25, "007", uint8(200), time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC), `{"a":[1]}`, 1)
	with(`UPDATE d SET v = ?`, "all")

	// UPDATE of several tables
	add(`UPDATE d JOIN e ON e.a = d.id SET d.v = e.b`, `UPDATE d INNER JOIN e ON e.a = d.id SET d.v = e.b, e.b = 'both' WHERE d.id = 1 OR e.a = 2`, `UPDATE d, e SET d.v = e.b WHERE e.a = d.id OR e.a = 7`, `UPDATE d LEFT JOIN e ON e.a = d.id SET d.v = 'none' WHERE e.a IS NULL OR 0`,
		`UPDATE d AS q STRAIGHT_JOIN e AS w ON q.id = w.a SET q.v = 'x', w.b = 'y'`, `UPDATE d NATURAL JOIN (SELECT 1 AS id) s SET v = 'n'`, `UPDATE (d, e) SET d.v = 'x' WHERE d.id = e.a`, `UPDATE d JOIN (SELECT a, b FROM e WHERE a > 1 ORDER BY a LIMIT 1) AS u ON u.a = d.id SET d.v = u.b`,
		`UPDATE d CROSS JOIN (SELECT MAX(a) AS m FROM e) AS s SET d.i = s.m + 1 WHERE d.id < 3 OR d.v IS NULL`, `UPDATE IGNORE d JOIN e ON d.id = e.a SET d.u = 'one', e.b = 'q'`, `UPDATE d a JOIN d b ON a.id = b.id + 1 SET a.v = b.v`, `UPDATE d RIGHT JOIN e USE INDEX () ON d.id = e.a SET d.v = 'r'`,
		`UPDATE parent JOIN child ON child.parent = parent.id SET child.id = child.id + 1 WHERE parent.id = 1 OR child.id = 20`)
	none(`UPDATE d JOIN e ON e.a = d.id AND 0 SET d.v = 'x'`)
	fail(`UPDATE d JOIN e ON e.a = d.id SET a = 1, id = 1`, `UPDATE d, e SET d.v = 'x' LIMIT 1, 2`, `UPDATE d JOIN nowhere SET d.v = 1`)
	with(`UPDATE d JOIN (SELECT ? AS id, ? AS s UNION ALL SELECT ?, ?) AS u ON u.id = d.id SET d.v = u.s WHERE d.id > ? OR d.id < ?`, 1, "one", 2, "two", 1, -1)

	// DELETE
	add(`DELETE FROM d`, `DELETE FROM d WHERE id = 1`, `DELETE FROM d WHERE id = 1 OR id = 2`, `DELETE FROM d WHERE NOT id = 1 OR v IS NULL`, `DELETE FROM d ORDER BY id LIMIT 1`, `DELETE FROM d WHERE id > 1 OR 0 ORDER BY id DESC LIMIT 1`, `DELETE LOW_PRIORITY QUICK IGNORE FROM d WHERE id = 1`,
		`DELETE FROM part PARTITION (p1)`, `DELETE FROM part PARTITION (p0, p1) WHERE k = 12 OR v = 'lo'`, `DELETE FROM simple WHERE id = 1`, `DELETE FROM c WHERE id = 1 OR p = 2`, `DELETE FROM parent WHERE id = 1`, `DELETE FROM e WHERE a IN (SELECT id FROM d) OR b IS NULL`,
		"DELETE FROM `where` WHERE `set` = 1", "DELETE FROM d -- note", "DELETE FROM d # note", "DELETE FROM d;", "DELETE FROM d WHERE id = 1; -- t", "DELETE/**/FROM/**/d/**/WHERE(id=1)OR(id=2)", `DELETE FROM d WHERE (id = 1) OR (SELECT 1 FROM e WHERE e.a = d.id LIMIT 1)`,
		`DELETE d FROM d JOIN e ON e.a = d.id`, `DELETE d, e FROM d JOIN e ON e.a = d.id WHERE d.id = 1 OR e.b = 'y'`, `DELETE FROM d USING d JOIN e ON e.a = d.id`, `DELETE FROM q, w USING d AS q JOIN e AS w ON w.a = q.id WHERE q.id = 2 OR 0`, `DELETE q.*, w.* FROM d AS q INNER JOIN e w ON w.a = q.id`,
		`DELETE LOW_PRIORITY QUICK IGNORE d FROM d LEFT JOIN e ON e.a = d.id WHERE e.a IS NULL`, `DELETE d FROM d, (SELECT MAX(id) AS m FROM auto) s WHERE d.id < s.m AND d.id <> 2 OR d.id = 5`, `DELETE a FROM d a JOIN d b ON a.id = b.id + 1`, `DELETE 2tab FROM 2tab`)
	none(`DELETE FROM d WHERE 1 = 0`, `DELETE FROM d WHERE id = 999`, `DELETE FROM d LIMIT 0`, `DELETE d FROM d JOIN e ON 0`)
	fail(`DELETE FROM nowhere`, `DELETE FROM d WHERE nowhere = 1`, `DELETE d FROM d JOIN e ON x = y`, `DELETE FROM joined WHERE id = 1`, `DELETE q FROM d`, `DELETE FROM d WHERE id = (SELECT a FROM e)`)
	with(`DELETE FROM d WHERE id = ? OR v = ? ORDER BY id LIMIT ?`, 1, "b", 1)
	with(`DELETE d FROM d JOIN e ON e.a = d.id AND e.a = ? WHERE d.id = ? OR d.id = ?`, 2, 1, 2)

	// INSERT and REPLACE of one row
	add(`INSERT INTO d (v) VALUES ('new')`, `INSERT INTO d (id, v) VALUES (50, 'new')`, `INSERT d (v) VALUE ('new')`, `INSERT LOW_PRIORITY INTO d (v) VALUES ('lo')`, `INSERT HIGH_PRIORITY INTO d (v) VALUES ('hi')`, `INSERT INTO d(v)VALUES('glued')`,
		`INSERT INTO auto VALUES (NULL, 'generated', 'k')`, `INSERT INTO auto VALUES (0, 'generated', 'k')`, `INSERT INTO auto (v) VALUES ('gen')`, `INSERT INTO auto VALUES (500, 'given', NULL)`, `INSERT INTO auto (id, v) VALUES (-3, 'negative')`,

		`REPLACE INTO d (id, v) VALUES (1, 'replaced')`, `REPLACE d (id, u) VALUES (60, 'one')`, `REPLACE LOW_PRIORITY INTO auto (v, k) VALUES ('r', 'k10')`,
		`INSERT INTO d (n, r, b, j, i, c, s, t, bt, da) VALUES (1.005, 1e2, x'ff', '{"a": 1}', '12', 'green', 'x,y', 255, b'11', '2020-02-02')`, `INSERT INTO d (v, n) VALUES (12, '3.50')`, `INSERT INTO d (v, r) VALUES (NOW() > '2000-01-01', 6)`, `INSERT INTO d (v, r) VALUES (CONCAT('a', UPPER('b'), 1 + 2), 6)`,
		`INSERT INTO d (da, ts, r) VALUES ('2020-01-31' + INTERVAL 1 MONTH, TIMESTAMP('2020-01-01', '10:11:12'), 6)`, `INSERT INTO d (v, r) VALUES (CAST('12' AS UNSIGNED) + CAST('1' AS DECIMAL(5, 2)), 6)`, `INSERT INTO d (v, r) VALUES (TRIM(BOTH 'x' FROM 'xax'), 6)`, `INSERT INTO d (v, r) VALUES (SUBSTRING('abc' FROM 2 FOR 1), 6)`, `INSERT INTO d (v, r) VALUES (CONVERT('ü' USING utf8mb4), 6)`,
		`INSERT INTO d (v, r) VALUES (EXTRACT(YEAR FROM '2020-01-01'), 6)`, `INSERT INTO d (v, r) VALUES (CASE WHEN 1 > 0 THEN 'yes' ELSE 'no' END, 6)`, `INSERT INTO d (v, i) VALUES (NULL, -5)`, `INSERT INTO d (v, i, r) VALUES (1 IN (1, 2), NOT 0 AND 1 OR 0 XOR 1, 6)`, `INSERT INTO d (v, r) VALUES ('a' 'b', 6)`, `INSERT INTO d (v, r) VALUES ("dq", 6)`, `INSERT INTO d (v, r) VALUES (_utf8mb4'x' COLLATE utf8mb4_bin, 6)`,
		`INSERT INTO d (v, i, r) VALUES (@@version_comment IS NOT NULL, @@session.autocommit, 6)`, `INSERT INTO d (v, r) VALUES (@undefined, 6)`, `INSERT INTO d (i, v, r) VALUES (@x := 3, @x, 6)`, `INSERT INTO d (v, ts, r) VALUES (CURRENT_USER IS NULL, IF(CURRENT_TIMESTAMP > '2000-01-01', '2020-01-01', NULL), 6)`,
		`INSERT INTO g (a) VALUES (5)`, `INSERT INTO c VALUES (50, 5)`, `INSERT INTO part PARTITION (p0) (k, v) VALUES (5, 'p')`, `INSERT INTO part VALUES (19, 'last')`, `INSERT INTO simple VALUES (4, 'v')`, "INSERT INTO `where` VALUES (3, 'b', 4)", `INSERT INTO 2tab VALUES (0x1f, 1.5e0)`, `INSERT INTO child VALUES (30, 1)`,
		"INSERT /* a */ INTO /* VALUES */ e VALUES /* ( */ (1, 'c' /* ) */) -- note", "INSERT INTO e VALUES (4, 'ON DUPLICATE KEY'); -- t", "INSERT INTO e # (\nVALUES (4, ')')",
		`INSERT INTO d (v) VALUES ('\0\n\\')`, `INSERT INTO d (b, r) VALUES (0x00ff27, 6)`, `INSERT INTO d (v, r) VALUES (JSON_OBJECT('a', JSON_ARRAY(1, 2)), 6)`, `INSERT INTO d (v, r) VALUES ((1), 6)`, `INSERT INTO d (v, r) VALUES (((1 + 2)) * (3), 6)`, `INSERT INTO d (v, r) VALUES (~0 ^ 1 | 2 & 3 << 1 >> 1, 6)`, `INSERT INTO d (v, r) VALUES (5 DIV 2 + 5 MOD 2 - 5 % 3, 6)`, `INSERT INTO d (v, r) VALUES ('a' LIKE 'b' ESCAPE '!' OR 'a' RLIKE 'b', 6)`)
	fail(`INSERT INTO d (id) VALUES (1)`, `INSERT INTO d (v) VALUES ('much too long for the column')`, `INSERT INTO c VALUES (50, NULL)`, `INSERT INTO c VALUES (100, 1)`, `INSERT INTO c (id) VALUES (50)`, `INSERT INTO d (v) VALUES (1, 2)`, `INSERT INTO d (nowhere) VALUES (1)`, `INSERT INTO nowhere VALUES (1)`, `INSERT INTO g (twice) VALUES (1)`,
		`INSERT INTO d (u) VALUES ('ONE')`, `INSERT INTO part VALUES (99, 'x')`, `INSERT INTO part PARTITION (p0) VALUES (11, 'x')`, `INSERT INTO simple VALUES (50, 'check')`, `INSERT INTO child VALUES (1, 99)`, `INSERT INTO d (c) VALUES ('blue')`, `INSERT INTO d (j) VALUES ('{')`, `INSERT INTO d (t) VALUES (256)`, `INSERT INTO d (i) VALUES ('x')`, `INSERT INTO d (da) VALUES ('2020-13-01')`,
		`INSERT INTO d (id, id) VALUES (1, 2)`, `INSERT INTO d (n, r) VALUES (POW(10, 400), 6)`, `INSERT INTO d (v, r) VALUES ((1, 2), 6)`)
	with(`INSERT INTO d (v, n, r, i) VALUES (?, ?, ?, ?)`, "s", "1.50", 2.5, int64(9))
	with(`INSERT INTO d (v, b, j, ts, t, da) VALUES (?, ?, ?, ?, ?, ?)`, nil, []byte{0, 255, 128, '\''}, `{"a":1}`, time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC), true, "2024-01-02")
	with(`INSERT INTO d (v, n, r, b, j, i, u, ts, c, s, t, bt, da) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, 12, 3, "2.5", "text", `"j"`, "15", 7, "2020-01-01 00:00:00", "red", "x", "5", 3, time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC))
	with(`REPLACE INTO d (id, v) VALUES (?, ?)`, 1, "rep")
	with(`INSERT INTO d (id, v, i) VALUES (?, COALESCE(?, 'nil'), CAST(? AS SIGNED))`, 70, nil, "12")
	with(`INSERT INTO d (id, i) VALUES (?, ?)`, uint64(1<<30), -1<<31)
	with(`INSERT INTO d (id, v) VALUES (?, ?)`, 1, "dup")
	all[len(all)-1].fails = true
	with(`INSERT INTO c VALUES (?, ?)`, 51, nil)
	all[len(all)-1].fails = true
	for i := range 20 { // every position of a parameter among literals
		values := strings.Repeat("'x', ", i) + "?" + strings.Repeat(", 'y'", 19-i)
		with(fmt.Sprintf(`INSERT INTO d (v, i) VALUES (CONCAT(%s), 6)`, values), "p")
	}

	// INSERT and REPLACE of several rows, SET, upserts, and what else stands in VALUES
	add(`INSERT INTO auto (v, k) VALUES ('a', 'x1'), ('b', 'x2'), ('c', 'x3')`, `INSERT INTO auto VALUES (NULL, 'a', 'x1'), (0, 'b', 'x2'), (700, 'c', 'x3'), (NULL, 'd', 'x4')`, `INSERT INTO auto (v) VALUES (NULL), ('b')`, `INSERT INTO d VALUES (80, 'a', 1, 2, 'b', '{}', 3, 'u', NULL, 'red', 'x', 4, 5, '2020-01-01'), (81, DEFAULT, 1.5, 2.5, NULL, NULL, 7, NULL, '2020-01-02', NULL, '', 0, b'1', NULL)`,
		`REPLACE INTO d (id, v) VALUES (1, 'r1'), (90, 'r90'), (2, 'r2')`, `REPLACE auto (v, k) VALUES ('r', 'k10'), ('q', 'k99')`, `INSERT INTO c VALUES (50, 5), (51, 6)`, `INSERT INTO part VALUES (2, 'a'), (12, 'b')`, `INSERT INTO child VALUES (30, 1), (31, 2)`, "INSERT INTO e VALUES (1, 'a'), -- (2, 'b'),\n (3, 'c')",
		`INSERT INTO d SET v = 'set', i = 3`, `INSERT INTO d SET d.v = DEFAULT, n = 1.50`, `INSERT INTO auto SET v = 'set'`, `REPLACE d SET id = 1, v = CONCAT('a', 'b')`, "INSERT `where` SET `set` = 5, `end``s` = 6, `update` = NULL",
		`INSERT INTO auto (v, k) VALUES ('up', 'k10') ON DUPLICATE KEY UPDATE v = VALUES(v)`, `INSERT INTO auto (v, k) VALUES ('up', 'k10') ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), v = 'dup'`, `INSERT INTO auto (v, k) VALUES ('up', 'new') ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)`,
		`INSERT INTO auto (v, k) VALUES ('a', 'n1'), ('b', 'k11'), ('c', 'n2') ON DUPLICATE KEY UPDATE v = CONCAT(VALUES(v), auto.v), id = LAST_INSERT_ID(auto.id)`, `INSERT INTO auto SET v = 'up', k = 'k11' ON DUPLICATE KEY UPDATE v = VALUES(v)`, `INSERT INTO d (id, v) VALUES (1, 'x') ON DUPLICATE KEY UPDATE v = (SELECT MAX(b) FROM e)`,
		`INSERT INTO d (v, i) VALUES ('x', id)`, `INSERT INTO d (id, i) VALUES (90, id)`, `INSERT INTO d (id, i) VALUES (90, id + 1), (91, id)`, `INSERT INTO d (v, i) VALUES (DEFAULT, 5)`, `INSERT INTO d (v, i) VALUES (DEFAULT(v), 5)`, `INSERT INTO d (i, v) VALUES (5, (SELECT MAX(b) FROM e))`, `INSERT INTO e VALUES (3, (SELECT COUNT(*) FROM d))`, `INSERT INTO d (v, i) VALUES (CURRENT_USER IS NULL, 5)`)
	none(`INSERT INTO auto (v, k) VALUES ('ten', 'k10') ON DUPLICATE KEY UPDATE v = 'ten'`)
	fail(`INSERT INTO d (id) VALUES (70), (1)`, `INSERT INTO c VALUES (50, 5), (100, 1)`, `INSERT INTO d (id, v) VALUES (70, 'a'), (71)`, `INSERT INTO d SET id = 1`, `INSERT INTO d SET v = 'much too long for the column'`, `INSERT INTO d (t) VALUES (1), (256)`, `INSERT INTO d (v) VALUES ('a'), (COUNT(*))`, `INSERT INTO d (v, i) VALUES (ROW_NUMBER() OVER (), 1)`,
		`INSERT INTO auto (id, k) VALUES (900, 'k11') ON DUPLICATE KEY UPDATE k = 'k10'`, `INSERT INTO d (i, v) VALUES (5, (SELECT b FROM e))`, `INSERT INTO d (v, i) VALUES ('x', (SELECT 1, 2))`)
	with(`INSERT INTO auto (v, k) VALUES (?, ?), (?, ?)`, "a", "x1", nil, "x2")
	with(`INSERT INTO auto (v, k) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = ?, id = LAST_INSERT_ID(id)`, "a", "k10", "dup")
	with(`INSERT INTO d (v, n, b, i) VALUES (DEFAULT, ? + 1, ?, ?), (?, ?, ?, ?)`, 1, []byte{0, 255}, 3, "v", "1.5", nil, 4)
	with(`INSERT INTO d SET v = CONCAT(?, 'x'), u = ?, b = ?`, "a", "b", []byte{255})
	with(`REPLACE INTO d (id, u, v) VALUES (?, 'one', ?), (?, 'two', ?)`, 77, "a", 78, "b")

	// INSERT and REPLACE of a query
	add(`INSERT INTO e SELECT id, v FROM d`, `INSERT INTO e (a, b) SELECT id, v FROM d WHERE id = 1 OR id = 2`, `INSERT INTO e SELECT id, v FROM d ORDER BY id DESC LIMIT 2`, `INSERT INTO e SELECT id, v FROM d LIMIT 1, 1`, `INSERT INTO e SELECT i, COUNT(*) FROM d GROUP BY i`, `INSERT INTO e SELECT i, COUNT(*) FROM d GROUP BY i HAVING COUNT(*) > 1 OR i = 3 ORDER BY i`,
		`INSERT INTO e SELECT COUNT(*), MAX(v) FROM d`, `INSERT INTO e SELECT COUNT(*), NULL FROM d WHERE 1 = 0`, `INSERT INTO e SELECT i, COUNT(*) FROM d GROUP BY i WITH ROLLUP`, `INSERT INTO e SELECT DISTINCT i, 'x' FROM d`, `INSERT INTO e SELECT a + 10, b FROM e`, `INSERT INTO e SELECT id, v FROM d WHERE id = 1 HAVING id = 1 OR v = 'x'`, `INSERT INTO e SELECT id AS x, v FROM d HAVING x > 1 OR v = 'a' LIMIT 2`,
		`INSERT INTO e SELECT 1, 'x'`, `INSERT INTO e SELECT 1, 'x' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM e WHERE a = 99)`, `INSERT INTO e (SELECT id, v FROM d WHERE id = 1)`, `INSERT INTO e (a, b) ((SELECT id, v FROM d))`, `INSERT INTO e SELECT d.id, e.b FROM d JOIN e ON e.a = d.id`, `INSERT INTO e SELECT q.id, q.v FROM (SELECT id, v FROM d UNION SELECT a, b FROM e) AS q`, `INSERT INTO e WITH x AS (SELECT id, v FROM d) SELECT * FROM x`,
		`INSERT INTO e (a) WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < 4) SELECT n FROM k`, `INSERT INTO e SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM d`, `INSERT INTO e SELECT id, SUM(i) OVER (PARTITION BY c) FROM d ORDER BY id LIMIT 2`, `INSERT INTO e SELECT id, v FROM d FOR UPDATE`, `INSERT INTO e SELECT id, v FROM d LOCK IN SHARE MODE`, `INSERT INTO e SELECT id, v FROM d USE INDEX FOR ORDER BY (PRIMARY) ORDER BY id LIMIT 1`,
		`INSERT INTO auto (v, k) SELECT v, CONCAT('q', id) FROM d ORDER BY id`, `INSERT INTO auto (id, v) SELECT id + 100, v FROM d`, `INSERT INTO auto (id, v, k) SELECT id + 9, v, CONCAT('k', id + 9) FROM d ON DUPLICATE KEY UPDATE v = VALUES(v)`, `INSERT INTO d (id, v) SELECT a, b FROM e ON DUPLICATE KEY UPDATE d.v = e.b`, `INSERT INTO d (id, v) SELECT a, b FROM e JOIN (SELECT 1 AS one) s ON s.one = 1 ON DUPLICATE KEY UPDATE v = 'dup'`,
		`INSERT IGNORE INTO d (id, v) SELECT a, b FROM e`, `REPLACE INTO d (id, v) SELECT a, b FROM e`, `REPLACE d (id, v) SELECT a, b FROM e WHERE a = 1 OR a = 7`, `INSERT INTO part PARTITION (p0) SELECT a, b FROM e`, `INSERT INTO c SELECT a + 10, a FROM e`, `INSERT INTO e SELECT sqlfence_g.high_water, 'x' FROM sqlfence_g`, `INSERT INTO e SELECT (SELECT MAX(id) FROM d), @b := 'b'`, `INSERT INTO g (a) SELECT STRAIGHT_JOIN d.id FROM d JOIN e ON d.id = e.a`,
		`INSERT INTO e SELECT SQL_BIG_RESULT i, GROUP_CONCAT(v ORDER BY id SEPARATOR ';') FROM d GROUP BY i`, `INSERT INTO e SELECT id, v FROM d WHERE id IN (SELECT a FROM e ORDER BY a) ORDER BY v, id`, "INSERT INTO e SELECT id, v FROM d -- note", "INSERT INTO e SELECT id, v FROM d;", `INSERT INTO e SELECT MIN(id), MAX(v) FROM d WHERE id > 100`)
	none(`INSERT INTO e SELECT id, v FROM d WHERE 1 = 0`, `INSERT INTO e SELECT id, v FROM d LIMIT 0`, `INSERT INTO e SELECT i, COUNT(*) FROM d GROUP BY i HAVING 0`, `INSERT IGNORE INTO c SELECT id, i FROM d WHERE id < 3`)
	fail(`INSERT INTO e SELECT id FROM d`, `INSERT INTO d (id) SELECT a FROM e`, `INSERT INTO e SELECT nowhere FROM d`, `INSERT INTO c SELECT a, NULL FROM e`, `INSERT INTO c SELECT a + 98, 1 FROM e`, `INSERT INTO e SELECT id, v FROM d HAVING COUNT(`+"`nowhere`"+`) > 1`)
	with(`INSERT INTO e SELECT ?, ? FROM d WHERE id = ? OR v = ? ORDER BY ? LIMIT ?`, 5, "p", 1, "b", 1, 2)
	with(`INSERT INTO e SELECT id, ? FROM d GROUP BY id, ? HAVING id > ? OR id = ? LIMIT ?`, "g", 1, 1, 1, 3)
	with(`INSERT INTO d (id, v) SELECT a, ? FROM e WHERE a < ? ON DUPLICATE KEY UPDATE v = ?`, "q", 3, "dup")

	if maria {
		return append(all, mariaTwinStatements()...)
	}
	return append(all, mysqlOnlyTwinStatements()...)
}
