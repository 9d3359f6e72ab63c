package twin_test

// mysqlOnlyTwinStatements are those that MariaDB does not have.
func mysqlOnlyTwinStatements() []twinStatement {
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

	// a WITH list in front
	add(`WITH x AS (SELECT 1 AS id) UPDATE d SET v = 'w' WHERE id IN (SELECT id FROM x) OR id = 5`, `WITH x AS (SELECT 1 AS id UNION SELECT 2), y (a) AS (SELECT MAX(id) FROM x) UPDATE d JOIN y ON y.a = d.id SET d.v = 'w'`,
		`WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < 4) UPDATE d, k SET d.i = k.n WHERE d.id = k.n OR 0`, `WITH x AS (SELECT 1 AS id) DELETE FROM d WHERE id IN (SELECT id FROM x) OR id = 2 ORDER BY id DESC LIMIT 1`,
		`WITH x AS (SELECT 1 AS id) DELETE d, e FROM d JOIN e ON e.a = d.id JOIN x ON x.id = d.id`, `WITH x AS (SELECT 1 AS id) DELETE FROM q USING d AS q JOIN x ON x.id = q.id`, `UPDATE d SET v = 'w' WHERE id IN (WITH x AS (SELECT 1 AS id) SELECT id FROM x)`,
		`INSERT INTO e WITH x AS (SELECT id, v FROM d), y AS (SELECT id FROM x) SELECT x.id, x.v FROM x JOIN y ON y.id = x.id`)
	with(`WITH x AS (SELECT ? AS id) UPDATE d SET v = ? WHERE id IN (SELECT id FROM x) OR id = ?`, 1, "w", 5)
	with(`WITH x AS (SELECT ? AS id, ? AS s) DELETE d FROM d JOIN x ON x.id = d.id WHERE x.s = ? OR 0`, 2, "a", "a")

	// row aliases
	add(`INSERT INTO auto (v, k) VALUES ('up', 'k10') AS new ON DUPLICATE KEY UPDATE v = new.v`, `INSERT INTO auto (v, k) VALUES ('a', 'n1'), ('b', 'k11') AS new (m, n) ON DUPLICATE KEY UPDATE v = CONCAT(m, auto.v), id = LAST_INSERT_ID(auto.id)`,
		`INSERT INTO auto SET v = 'up', k = 'k11' AS new ON DUPLICATE KEY UPDATE v = new.v`, `INSERT INTO auto SET v = 'up', k = 'k11' AS new (m, n) ON DUPLICATE KEY UPDATE v = CONCAT(m, n)`, `INSERT INTO d (id, v, i) VALUES (1, 'x', 3) AS sqlfence_g ON DUPLICATE KEY UPDATE v = sqlfence_g.v`,
		`INSERT INTO auto (v, k) VALUES ('x', 'k') AS new`, `INSERT INTO d (id, v) SELECT q.a, q.b FROM (SELECT a, b FROM e) AS q ON DUPLICATE KEY UPDATE d.v = q.b`)
	with(`INSERT INTO auto (v, k) VALUES (?, ?) AS new ON DUPLICATE KEY UPDATE v = CONCAT(new.v, ?)`, "a", "k10", "!")

	// sources of rows
	add(`INSERT INTO e SELECT d.id, q.s FROM d, LATERAL (SELECT CONCAT(d.v, '!') AS s) AS q`, `INSERT INTO e SELECT d.id, q.b FROM d LEFT JOIN LATERAL (SELECT b FROM e WHERE e.a = d.id LIMIT 1) AS q ON TRUE`, `INSERT INTO e SELECT q.a, q.b FROM (VALUES ROW(1, 'r'), ROW(2, 's')) AS q (a, b)`,
		`INSERT INTO e SELECT j.a, j.b FROM JSON_TABLE('[{"a": 1, "b": "x"}, {"a": 2}]', '$[*]' COLUMNS (n FOR ORDINALITY, a INT PATH '$.a', b VARCHAR(5) PATH '$.b' DEFAULT '"d"' ON EMPTY)) AS j`, `UPDATE d JOIN LATERAL (SELECT MAX(a) AS m FROM e WHERE e.a <= d.id) AS q SET d.i = q.m`,
		`INSERT INTO e SELECT id, FIRST_VALUE(v) OVER w FROM d WINDOW w AS (PARTITION BY c ORDER BY id)`, `INSERT INTO e SELECT id, RANK() OVER w FROM d HAVING id > 1 OR id = 1 WINDOW w AS (ORDER BY id) ORDER BY id LIMIT 2`, `INSERT INTO e SELECT i, GROUPING(i) FROM d GROUP BY i WITH ROLLUP`,
		`INSERT INTO e SELECT id, v FROM d FOR UPDATE OF d SKIP LOCKED`, `INSERT INTO e SELECT id, v FROM d FOR SHARE NOWAIT`, `INSERT INTO e (SELECT id, v FROM d ORDER BY id LIMIT 1)`, `REPLACE INTO d (id, v) SELECT q.a, q.b FROM (TABLE e) AS q`,
		`INSERT INTO e SELECT q.* FROM (SELECT id, v FROM d EXCEPT SELECT a, b FROM e) AS q`, `INSERT INTO e SELECT q.* FROM (SELECT id, v FROM d INTERSECT SELECT id, v FROM d WHERE id < 3) AS q`)

	// conditions, values and hints
	add(`UPDATE d SET v = 'x' WHERE j -> '$.k' = 1 OR j ->> '$[0]' = '1'`, `UPDATE d SET v = j->>'$.k' WHERE id = 1`, `UPDATE d SET v = 'x' WHERE 1 MEMBER OF (j) OR id = 5`, `DELETE FROM d WHERE JSON_CONTAINS(j, '1') OR JSON_OVERLAPS(j, '[1]')`,
		`UPDATE /*+ NO_INDEX_MERGE(d) SET_VAR(sort_buffer_size = 262144) */ d SET v = 'hint' WHERE id = 1 OR v = 'b'`, `DELETE /*+ QB_NAME(mine) */ FROM d WHERE id = 1 OR 0`, `INSERT /*+ SET_VAR(foreign_key_checks = OFF) */ INTO e SELECT /*+ NO_MERGE(q) */ q.id, q.v FROM (SELECT id, v FROM d) AS q`,
		`UPDATE d SET v = 'x' WHERE id IN (SELECT /*+ SEMIJOIN(MATERIALIZATION) */ a FROM e) OR id = 5`, `UPDATE d SET v = _latin1 X'E4', u = _binary 'n' WHERE id = 1`, `UPDATE d SET b = X'00ff', bt = B'101', v = _utf8mb4 0x41 WHERE id = 1 OR id = 2`, `UPDATE d SET v = REGEXP_REPLACE(v, 'a', 'b') WHERE REGEXP_LIKE(v, '^A$', 'i')`,
		`DELETE FROM d AS q WHERE q.id = 1 OR q.v = 'b'`, `DELETE FROM d q WHERE q.id = 1`, `DELETE FROM d AS q WHERE EXISTS (SELECT 1 FROM e WHERE e.a = q.id) ORDER BY q.id LIMIT 1`, `UPDATE d SET v = (SELECT b FROM e WHERE e.a = d.id) WHERE EXISTS (SELECT 1 FROM e WHERE e.a = d.id)`,
		`UPDATE d SET id = id + 1 WHERE id > 1 ORDER BY id DESC`, `UPDATE auto SET id = id + 5`, `UPDATE d SET v = @n := CONCAT(COALESCE(@n, ''), id)`)
	fail(`INSERT INTO e SELECT id, MAX(v) FROM d`, `INSERT INTO e SELECT id, v FROM d GROUP BY i`, `INSERT INTO auto (v, k) VALUES ('a', 'k10') AS new ON DUPLICATE KEY UPDATE v = new.nowhere`, `WITH x AS (SELECT 1 AS id) UPDATE d SET v = 'w' WHERE id = (SELECT nowhere FROM x)`,
		`UPDATE d SET u = 'one'`, `INSERT INTO invisible (seen) VALUES (1, 2)`)

	// columns and keys that are not seen
	add(`INSERT INTO invisible (seen) VALUES (5)`, `INSERT INTO invisible VALUES (5), (6)`, `INSERT INTO invisible (seen, hidden) VALUES (5, 6)`, `INSERT INTO invisible SELECT id FROM d`, `UPDATE invisible SET hidden = 9 WHERE seen = 1 OR hidden = 2`, `DELETE FROM invisible WHERE hidden = 1`,
		`INSERT INTO keyless VALUES ('a')`, `INSERT INTO keyless VALUES ('a'), ('b')`, `INSERT INTO keyless SELECT v FROM d`, `UPDATE keyless SET v = 'z' WHERE my_row_id = 1 OR v = 'q'`, `DELETE FROM keyless LIMIT 1`)
	return all
}
