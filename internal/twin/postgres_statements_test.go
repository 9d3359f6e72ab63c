package twin_test

import (
	"fmt"
	"strings"
)

func postgresTwinStatements() []twinStatement {
	var all []twinStatement
	add := func(texts ...string) {
		for _, t := range texts {
			all = append(all, twinStatement{text: t})
		}
	}
	since := func(major int, texts ...string) {
		for _, t := range texts {
			all = append(all, twinStatement{text: t, since: major})
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
	after := func(before string, texts ...string) {
		for _, t := range texts {
			all = append(all, twinStatement{text: t, before: before})
		}
	}

	// UPDATE
	add(`UPDATE d SET v = 'x' WHERE id = 1`, `UPDATE d SET v = 'x' WHERE id = 1 OR id = 2`, `UPDATE d SET v = 'x'`, `UPDATE d SET v = 'x' WHERE NOT id = 1 OR v IS NULL`, `UPDATE d SET v = 'x' WHERE id = 1 AND v = 'z' OR id = 5`,
		`UPDATE ONLY d AS w SET v = w.v || '!' WHERE w.id < 3 RETURNING w.id, w.v AS where, id AS returning`, `UPDATE public.d SET (v, n) = (SELECT b, a FROM e WHERE e.a = d.id) RETURNING *`, `UPDATE d SET (v, n) = ROW('r', 3), k = DEFAULT WHERE id = 1 RETURNING id, v, n, k`,
		`UPDATE d SET v = u.s FROM (VALUES (1, 'one'), (2, 'two')) u(id, s) WHERE d.id = u.id`, `UPDATE d SET v = e.b FROM e JOIN e f ON f.a = e.a LEFT JOIN parent ON true WHERE e.a = d.id`, `UPDATE d SET v = 'x' FROM e`, `UPDATE d SET v = g::text FROM generate_series(1, 2) g WHERE g = id`,
		`UPDATE d SET j = jsonb_set(j, '{k}', '2') WHERE j ? 'k'`, `UPDATE d SET v = 'x' WHERE j ?| ARRAY['q', 'k']`, `UPDATE d SET a[1] = 'first', a[3:4] = '{p,q}' WHERE a[2] = 'y' RETURNING a`, `UPDATE d SET p.l = 9, p.r = 'nine' WHERE (p).l = 1 RETURNING p, (p).r`, `UPDATE d SET c = 'green' WHERE c = 'red'`,
		`UPDATE d SET v = CASE WHEN id = 1 THEN 'one' ELSE (SELECT max(b) FROM e WHERE a > 1) END`, `UPDATE d SET n = (SELECT count(*) FILTER (WHERE a > 1) FROM e)`, `UPDATE d SET v = 'x' WHERE EXISTS (SELECT FROM e WHERE e.a = d.id)`, `UPDATE d SET v = 'x' WHERE id IN (SELECT a FROM e) AND id = ANY (ARRAY[1, 2])`,
		`WITH s AS (SELECT 1 AS id) UPDATE d SET v = 'w' FROM s WHERE d.id = s.id`, `WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < 5) UPDATE d SET n = (SELECT sum(n) FROM k) WHERE id IN (SELECT n FROM k)`,
		`WITH s AS (INSERT INTO e VALUES (50, 'cte') RETURNING a) UPDATE d SET n = s.a FROM s RETURNING d.id, d.n`, `WITH s AS MATERIALIZED (DELETE FROM e WHERE a < 3 RETURNING *), r AS NOT MATERIALIZED (SELECT * FROM s) UPDATE d SET v = r.b FROM r WHERE d.id = r.a`,
		`UPDATE part SET k = 12 WHERE v = 'lo'`, `UPDATE part SET v = 'p' WHERE k = 11 OR k = 1`, `UPDATE base SET x = x + 1`, `UPDATE ONLY (base) SET x = x + 1`, `UPDATE base * SET x = x + 1 WHERE x > 0`, `UPDATE simple SET v = 's' WHERE id = 1 OR id = 5`, `UPDATE joined SET b = 'j' WHERE id = 1`, `UPDATE watched SET v = 'x' WHERE id = 1`,
		`UPDATE parent SET id = id + 100 WHERE id = 1`, `UPDATE "where" SET "set" = 2 WHERE "update" = 'a'`, `UPDATE words SET current = 9 WHERE current = 2 AND values = 1`, `UPDATE sqlfence_k SET ok = true WHERE NOT sqlfence_k.ok`, `UPDATE d AS sqlfence_k SET v = 'own' WHERE sqlfence_k.id = 1`,
		`WITH sqlfence_k AS (SELECT true AS ok), sqlfence_guard AS (SELECT 1) UPDATE d SET v = 'own' FROM sqlfence_k WHERE sqlfence_k.ok`, `/* a */ UPDATE d SET v = 'it''s; WHERE' /* WHERE /* nested */ */ WHERE id = 1 -- note`, "-- name: x\nUPDATE d SET v = $$ it's $$ WHERE v = E'a' OR v = E'\\'' ;", `UPDATE d SET v = U&'\0041' WHERE k = $q$one$q$`,
		`UPDATE d SET b = E'\\x01'::bytea, s = 5 WHERE id = 1`, "UPDATE d SET v = 'con'\n'tinued' WHERE v = E'\\x61'\n''", `UPDATE d SET v = 'x' WHERE id <@ '[1,2]'::int4range`, `UPDATE d SET n = -n, v = v || '-' WHERE n > -1 AND -id < 0`, `UPDATE d SET ts = timestamptz '2024-01-01 00:00:00+00' AT TIME ZONE 'UTC' WHERE id = 1 RETURNING ts`,
		`UPDATE d SET v = x.v FROM XMLTABLE('/r' PASSING '<r><v>xml</v></r>' COLUMNS v text) x WHERE id = 1`, `UPDATE d SET v = 'x' WHERE (id, v) = (1, 'a') OR (id, v) IN ((2, 'b'))`, `UPDATE d SET v = 'x' WHERE id IS DISTINCT FROM 1`, `UPDATE d SET k = k || id WHERE v COLLATE "C" < 'b' COLLATE "C"`, `UPDATE d SET v = 'x' WHERE ctid = '(0,1)'`)
	none(`UPDATE d SET v = 'x' WHERE 1 = 0`, `UPDATE d SET v = 'x' WHERE false`, `UPDATE d SET v = 'x' WHERE id IN (NULL)`, `UPDATE d SET v = 'x' WHERE NULL`, `UPDATE d SET v = 'x' WHERE id = 999 RETURNING id`, `UPDATE part SET v = 'x' WHERE k = 500`, `UPDATE d SET v = 'x' WHERE id = 1 AND id = 2`)
	all = append(all, twinStatement{text: `UPDATE watched SET v = 'x' WHERE 1 = 0`})
	fail(`UPDATE d SET id = 1 WHERE id = 2`, `UPDATE d SET s = 1000`, `UPDATE d SET c = 'blue'`, `UPDATE d SET v = 1 / (id - 1)`, `UPDATE child SET parent = 77`, `UPDATE part SET k = 500`, `UPDATE simple SET id = 7 WHERE id = 1`, `UPDATE always SET twice = 1`, `UPDATE nowhere SET v = 1`, `UPDATE d SET nowhere = 1`, `UPDATE d SET n = 1234567.0`, `UPDATE d SET v = 'x' WHERE id = 'x'`)
	with(`UPDATE d SET v = $2, n = $1 WHERE id = $3 OR k = $2`, "2.5", "two", "1")
	with(`UPDATE d SET j = $1, a = $2, u = $3, ts = $4, c = $5, p = $6, b = $7 WHERE id = $8 RETURNING *`, `{"a":[1]}`, "{a,NULL}", "12345678-1234-1234-1234-123456789012", "2024-02-03 04:05:06+00", "green", "(4,four)", `\x0102`, "1")
	with(`UPDATE d SET v = $1 WHERE $1 = v OR id = $2::int`, "a", "2")
	with(`UPDATE d SET v = $1, n = $2 WHERE id = 1`, null, null)
	with(`UPDATE d SET v = 'x' WHERE id = ANY ($1::int[])`, "{1,2}")
	with(`UPDATE d SET v = 'x' WHERE j ? $1 AND n >= -$2::numeric`, "k", "5")
	all = append(all, twinStatement{text: `UPDATE d SET v = 'x' WHERE id = $1`, args: []any{null}, none: true}, twinStatement{text: `UPDATE d SET v = 'x' WHERE $1`, args: []any{"f"}, none: true},
		twinStatement{text: `UPDATE d SET v = $1 WHERE id = $3`, args: []any{"unused", "2", "1"}, fails: true})
	after(`DECLARE c CURSOR FOR SELECT * FROM d WHERE id = 2 FOR UPDATE; MOVE NEXT c`, `UPDATE d SET v = 'current' WHERE CURRENT OF c`, `DELETE FROM d WHERE CURRENT OF c RETURNING id`)
	after(`CREATE TEMP TABLE e (a int, b text) ON COMMIT DROP; INSERT INTO pg_temp.e VALUES (1, 'temp')`, `UPDATE d SET v = e.b FROM e WHERE e.a = d.id`)
	after(`CREATE TEMP TABLE nothing (x int) ON COMMIT DROP; SET LOCAL search_path = pg_temp, sqlfence, public`, `UPDATE public.d SET v = 'path'`)
	since(18, `UPDATE d SET v = 'new' WHERE id = 1 RETURNING WITH (OLD AS o, NEW AS n) o.v, n.v`, `UPDATE d SET v = 'new' RETURNING old.v, new.v`)

	// DELETE
	add(`DELETE FROM d`, `DELETE FROM d WHERE id = 1 OR v = 'b'`, `DELETE FROM d WHERE NOT v = 'a' OR v IS NULL RETURNING *`, `DELETE FROM d AS w WHERE w.id IN (SELECT a FROM e WHERE a < 2)`, `DELETE FROM ONLY d USING e, parent WHERE d.id = e.a AND parent.id = d.id RETURNING d.id, e.b`, `DELETE FROM d USING e WHERE true`,
		`DELETE FROM parent WHERE id = 1`, `DELETE FROM part WHERE k > 5 OR v = 'lo'`, `DELETE FROM base`, `DELETE FROM ONLY base`, `DELETE FROM simple WHERE id = 1 OR id = 5`, `DELETE FROM joined WHERE id = 1`, `DELETE FROM watched`, `DELETE FROM "where" WHERE "set" = 1;`, `DELETE FROM words WHERE values = 1`,
		`WITH s AS (SELECT min(id) AS m FROM d) DELETE FROM d USING s WHERE id = s.m`, `WITH s AS (UPDATE e SET b = 'u' RETURNING a) DELETE FROM d WHERE id IN (SELECT a FROM s) RETURNING id`, `DELETE FROM e WHERE b LIKE '%x%' OR b IS NULL -- OR true`, `DELETE FROM e WHERE a BETWEEN 1 AND 2 OR a = 7`, `DELETE FROM e WHERE a = (SELECT max(a) FROM e)`)
	// one rule instead of the statement
	add(`UPDATE rv SET b = 'u' WHERE a = 1 OR a = 2`, `UPDATE rv SET b = 'u'`, `DELETE FROM rv WHERE a = 1 OR b = 'y'`, `DELETE FROM rv`, `INSERT INTO rv VALUES (60, 'sixty')`, `INSERT INTO rv VALUES (60, 'sixty'), (61, NULL)`, `INSERT INTO rv SELECT a + 10, b FROM e`, `INSERT INTO told VALUES (1)`)
	none(`DELETE FROM d WHERE 1 = 0`, `DELETE FROM d WHERE id IN (SELECT 1 WHERE false)`, `DELETE FROM d WHERE id = 999 RETURNING *`)
	fail(`DELETE FROM nowhere`, `DELETE FROM d WHERE 1 / (id - 1) = 0`)
	with(`DELETE FROM d WHERE id = $1 OR v = $2 RETURNING id`, "1", "b")

	// INSERT
	add(`INSERT INTO d (v) VALUES ('new')`, `INSERT INTO d (v, n) VALUES ('p', 1), (DEFAULT, NULL), (NULL, 2.25) RETURNING id, v, n`, `INSERT INTO d DEFAULT VALUES RETURNING *`, `INSERT INTO d VALUES (DEFAULT, 'all', 1, '{}', '{}', NULL, NULL, 'red', (1, 'x'), 3, 'b', 'kk') RETURNING *`, `INSERT INTO d (id, a, p) VALUES (50, ARRAY['q', NULL], ROW(1, 'r'))`,
		`INSERT INTO d (v, j, u, ts, c) VALUES ('t', '{"a": 1}', '12345678-1234-1234-1234-123456789012', '2024-01-01 00:00:00+00', 'red'), (NULL, NULL, NULL, NULL, NULL)`, `INSERT INTO d AS x (v) VALUES ('alias') RETURNING x.id`, `INSERT INTO always (v) VALUES ('abc') RETURNING *`, `INSERT INTO always (id, v) OVERRIDING SYSTEM VALUE VALUES (7, 'seven')`, `INSERT INTO d (id, v) OVERRIDING USER VALUE VALUES (7, 'user') RETURNING id`,
		`INSERT INTO d (v) SELECT b FROM e ORDER BY a DESC LIMIT 2 RETURNING id, v`, `INSERT INTO d (v) (SELECT b FROM e)`, `INSERT INTO e TABLE e`, `INSERT INTO e SELECT count(*), 'agg' FROM e`, `INSERT INTO e SELECT 1, 'u' UNION ALL SELECT 2, 'u' EXCEPT SELECT 2, 'u'`, `INSERT INTO e (VALUES (8, 'v')) UNION SELECT 9, 'u'`, `INSERT INTO e WITH s AS (SELECT 5 AS a) SELECT a, 'w' FROM s`,
		`WITH s AS (SELECT 5 AS a) INSERT INTO e SELECT a, 'w' FROM s RETURNING *`, `WITH s AS (DELETE FROM e RETURNING *) INSERT INTO e SELECT a + 1, b FROM s`, `INSERT INTO e SELECT a, b FROM e FOR UPDATE`, `INSERT INTO part VALUES (5, 'five'), (15, 'fifteen') RETURNING tableoid::regclass, *`, `INSERT INTO simple (id, v) VALUES (3, 's')`, `INSERT INTO joined VALUES (9, 'nine') RETURNING *`,
		`INSERT INTO watched VALUES (3, 'c')`, `INSERT INTO child VALUES (30, 1)`, `INSERT INTO "where" VALUES (3, 'b')`, `INSERT INTO sqlfence_k VALUES (true)`, `INSERT INTO e SELECT g, sum(g) OVER (ORDER BY g)::text FROM generate_series(1, 3) g`, `INSERT INTO e VALUES ((SELECT max(a) + 1 FROM e), $$x$$), (1 + 1, upper('q'))`,
		`INSERT INTO d (id, v) VALUES (1, 'ups') ON CONFLICT (id) DO UPDATE SET v = excluded.v || d.v RETURNING *`, `INSERT INTO d (id, v) VALUES (1, 'ups'), (3, 'three') ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE d.v <> excluded.v`, `INSERT INTO d (k) VALUES ('one') ON CONFLICT ON CONSTRAINT d_k_key DO UPDATE SET v = 'by name'`, `INSERT INTO d (id, v) VALUES (1, 'x'), (4, 'y') ON CONFLICT DO NOTHING RETURNING id`,
		`INSERT INTO d (id, k) SELECT a, b FROM e ON CONFLICT (id) DO UPDATE SET (v, n) = (excluded.k, DEFAULT) RETURNING id, v`, `INSERT INTO watched VALUES (1, 'z') ON CONFLICT (id) DO UPDATE SET v = excluded.v`, `INSERT INTO watched VALUES (1, 'z') ON CONFLICT DO NOTHING`)
	none(`INSERT INTO d (id) VALUES (1) ON CONFLICT DO NOTHING`, `INSERT INTO d (id, v) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE d.v <> excluded.v RETURNING id`, `INSERT INTO e SELECT * FROM e WHERE false`, `INSERT INTO e SELECT * FROM e LIMIT 0`)
	fail(`INSERT INTO d (id) VALUES (1)`, `INSERT INTO d (v, n) VALUES (1)`, `INSERT INTO always (id) VALUES (1)`, `INSERT INTO child VALUES (40, 77)`, `INSERT INTO part VALUES (500, 'x')`, `INSERT INTO e VALUES (1, 'x'), (2)`, `INSERT INTO d (c) VALUES ('blue')`, `INSERT INTO simple (id, v) VALUES (9, 'x')`, `INSERT INTO e VALUES ('x', 'y')`, `INSERT INTO d (id, v) VALUES (1, 'p'), (1, 'q') ON CONFLICT (id) DO UPDATE SET v = excluded.v`)
	with(`INSERT INTO d (v, n, j, a, u, ts, c, p, b) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING *`, "t", "1.25", `{"x": null}`, "{p}", "12345678-1234-1234-1234-123456789012", "2024-01-01 00:00:00+00", "red", "(1,q)", `\xff`)
	with(`INSERT INTO d (v, n) VALUES (NULL, $1), ($2, NULL), (DEFAULT, 3)`, "1", "two")
	with(`INSERT INTO d (id, v) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET v = $3 WHERE d.id = $1`, "1", "new", "upserted")
	with(`INSERT INTO e SELECT $1, $2 FROM generate_series(1, $3::int)`, "4", "gen", "3")
	with(`INSERT INTO e (a, b) VALUES ($10::int, $9), ($8::int, $7), ($6::int, $5), ($4::int, $3), ($2::int, $1)`, "a", "1", "b", "2", "c", "3", "d", "4", "e", "5")
	// CASES D24: a bulk of 1,000 rows of 20 columns, whose types the server finds.
	row, values := strings.Repeat("$%d, ", 19)+"$%d", []any{"1", "text", "2.50", `{"k": [1]}`, "{a,NULL}", "12345678-1234-1234-1234-123456789012", "2024-01-01 00:00:00+00", "green", null, "f"}
	var bulk []string
	var args []any
	for range 1000 {
		numbers := make([]any, 20)
		for i := range numbers {
			numbers[i] = len(args) + 1
			args = append(args, values[i%10])
		}
		bulk = append(bulk, "("+fmt.Sprintf(row, numbers...)+")")
	}
	with(`INSERT INTO wide VALUES `+strings.Join(bulk, ", "), args...)
	// CASES D27: what looks like a parameter and is none.
	with(`UPDATE d SET v = 'a $2 ?' || $$ lit $1 $$ || E'\'?' || $a$ $3 $a$ /* $9 ? */ || $1 WHERE k = $2 AND j ? 'k' -- $7`, "x", "one")
	with(`UPDATE d SET v = $10::text || $1 || $9 WHERE id = $2::int AND $3 = $3 AND $4::text = $4 AND ($5 || $6 || $7 || $8) IS NOT NULL`, "1", "1", "3", "4", "5", "6", "7", "8", "9", "10")
	after(`INSERT INTO always (v) VALUES ('abc')`, `UPDATE always SET v = 'abcd' RETURNING twice`)

	// writes inside WITH
	add(`WITH x AS (DELETE FROM d WHERE id = 1 RETURNING *) SELECT id, v FROM x`, `WITH x AS (UPDATE d SET v = 'w' WHERE id = 1 OR id = 2 RETURNING id), y AS (SELECT count(*) AS n FROM x) SELECT n FROM y`, `WITH x AS (INSERT INTO e VALUES (9, 'nine') RETURNING a) TABLE x`, `WITH x AS (DELETE FROM e) SELECT 1`,
		`WITH x AS (DELETE FROM e RETURNING a), y AS (INSERT INTO d (n) SELECT a FROM x RETURNING id) SELECT count(*) FROM y`, `WITH x AS (DELETE FROM e) VALUES (1), (2)`, `WITH x AS (DELETE FROM e WHERE a = 1 RETURNING a) (SELECT a FROM x) UNION ALL (SELECT 5) ORDER BY 1 DESC LIMIT 1`, `WITH x AS (UPDATE e SET b = 'q' RETURNING a) SELECT * FROM d WHERE id IN (SELECT a FROM x) FOR UPDATE`,
		`WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < 3), x AS (DELETE FROM e USING k WHERE a = n RETURNING a) SELECT array_agg(a ORDER BY a) FROM x`, `WITH x AS (WITH y AS (SELECT 9 AS a) INSERT INTO e SELECT a, 'in' FROM y RETURNING *) SELECT * FROM x`, `WITH recursive AS (DELETE FROM e RETURNING a) SELECT count(*) FROM recursive`)
	since(14, `WITH RECURSIVE t(a, b) AS (SELECT 1, 2 UNION ALL SELECT a + 1, b FROM t WHERE a < 3) SEARCH DEPTH FIRST BY a SET o CYCLE a SET c USING p UPDATE e SET b = t.o::text FROM t WHERE e.a = t.a`)
	none(`WITH x AS (DELETE FROM d WHERE false RETURNING id) SELECT * FROM x`)
	fail(`WITH x AS (INSERT INTO d (id) VALUES (1)) SELECT 1`, `WITH x AS (DELETE FROM d RETURNING id) SELECT nowhere FROM x`)
	with(`WITH x AS (UPDATE d SET v = $1 WHERE id = $2 RETURNING id) SELECT id + $3::int FROM x`, "w", "1", "10")

	// MERGE
	since(15, `MERGE INTO d USING e ON d.id = e.a WHEN MATCHED AND e.b = 'x' THEN DELETE WHEN MATCHED THEN UPDATE SET v = e.b WHEN NOT MATCHED THEN INSERT (id, v) VALUES (e.a, e.b);`, `MERGE INTO d AS t USING (VALUES (1, 'm'), (8, 'n')) AS s(id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT DEFAULT VALUES`,
		`WITH s AS (SELECT 1 AS id) MERGE INTO d USING s ON d.id = s.id WHEN MATCHED THEN UPDATE SET v = 'merged'`, `MERGE INTO watched w USING e ON w.id = e.a WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (e.a, e.b)`)
	since(17, `MERGE INTO d USING e ON d.id = e.a WHEN MATCHED THEN UPDATE SET v = e.b WHEN NOT MATCHED BY SOURCE THEN DELETE RETURNING merge_action(), d.id`, `WITH m AS (MERGE INTO d USING e ON d.id = e.a WHEN MATCHED THEN DELETE RETURNING d.id) SELECT count(*) FROM m`)
	all = append(all, twinStatement{text: `MERGE INTO d USING e ON d.id = e.a WHEN MATCHED THEN UPDATE SET v = $1`, args: []any{"arg"}, since: 15})
	return all
}
