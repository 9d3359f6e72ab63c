package sqlgen_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestPostgreSQLUpdatesAndDeletesAreGuardedInTheirWhere(t *testing.T) {
	testShapes(t, sqlgen.PostgreSQL, []shape{
		{"no WHERE", `DELETE FROM d`, `WITH [check 1] DELETE FROM d WHERE [ok]`},
		{"no WHERE but RETURNING", `DELETE FROM d RETURNING id`, `WITH [check 1] DELETE FROM d WHERE [ok] RETURNING id`},
		{"an OR at the top (CASES D21)", `UPDATE d SET v='x' WHERE id=1 OR id=2`, `WITH [check 1] UPDATE d SET v='x' WHERE [ok] AND (id=1 OR id=2)`},
		{"a NOT and an OR", `DELETE FROM d WHERE NOT a OR b`, `WITH [check 1] DELETE FROM d WHERE [ok] AND (NOT a OR b)`},
		{"AND, AND, OR", `DELETE FROM d WHERE id=1 AND x OR y`, `WITH [check 1] DELETE FROM d WHERE [ok] AND (id=1 AND x OR y)`},
		{"RETURNING behind WHERE", `UPDATE d SET v=1 WHERE a RETURNING *`, `WITH [check 1] UPDATE d SET v=1 WHERE [ok] AND (a) RETURNING *`},
		{"RETURNING WITH, of PostgreSQL 18", `UPDATE d SET v=1 WHERE a RETURNING WITH (OLD AS o, NEW AS n) o.v, n.v`,
			`WITH [check 1] UPDATE d SET v=1 WHERE [ok] AND (a) RETURNING WITH (OLD AS o, NEW AS n) o.v, n.v`},
		{"FROM", `UPDATE d SET v=u.s FROM (VALUES ($1::int,$2::text),($3,$4)) u(id,s) WHERE d.id=u.id`,
			`WITH [check 5] UPDATE d SET v=u.s FROM (VALUES ($1::int,$2::text),($3,$4)) u(id,s) WHERE [ok] AND (d.id=u.id)`},
		{"FROM without WHERE", `UPDATE d SET v=u.s FROM u`, `WITH [check 1] UPDATE d SET v=u.s FROM u WHERE [ok]`},
		{"USING", `DELETE FROM d USING u WHERE d.id = u.id`, `WITH [check 1] DELETE FROM d USING u WHERE [ok] AND (d.id = u.id)`},
		{"a sub-select with a WHERE of its own in SET (CASES D28)", `UPDATE d SET v = (SELECT x FROM y WHERE y.id = d.id)`,
			`WITH [check 1] UPDATE d SET v = (SELECT x FROM y WHERE y.id = d.id) WHERE [ok]`},
		{"a FILTER (WHERE …)", `UPDATE d SET v = (SELECT count(*) FILTER (WHERE a) FROM y) WHERE b`,
			`WITH [check 1] UPDATE d SET v = (SELECT count(*) FILTER (WHERE a) FROM y) WHERE [ok] AND (b)`},
		{"several columns from a row", `UPDATE d SET (a, b) = (DEFAULT, 1) WHERE c`, `WITH [check 1] UPDATE d SET (a, b) = (DEFAULT, 1) WHERE [ok] AND (c)`},
		{"an element and a field", `UPDATE d SET a[1:2] = $1, b.c = $2 WHERE e`, `WITH [check 3] UPDATE d SET a[1:2] = $1, b.c = $2 WHERE [ok] AND (e)`},
		{"IN and EXISTS", `DELETE FROM d WHERE id IN (SELECT id FROM y WHERE z) AND EXISTS (SELECT 1)`,
			`WITH [check 1] DELETE FROM d WHERE [ok] AND (id IN (SELECT id FROM y WHERE z) AND EXISTS (SELECT 1))`},
		{"constant false", `DELETE FROM d WHERE 1=0`, `WITH [check 1] DELETE FROM d WHERE [ok] AND (1=0)`},
		{"ONLY, schema and alias", `UPDATE ONLY s.d AS w SET v=1 WHERE w.id=1`, `WITH [check 1] UPDATE ONLY s.d AS w SET v=1 WHERE [ok] AND (w.id=1)`},
		{"ONLY in brackets", `DELETE FROM ONLY (s.d) w WHERE w.id=1`, `WITH [check 1] DELETE FROM ONLY (s.d) w WHERE [ok] AND (w.id=1)`},
		{"a star behind the table", `UPDATE d * SET v=1 WHERE a`, `WITH [check 1] UPDATE d * SET v=1 WHERE [ok] AND (a)`},
		{"a condition in brackets, without a space", `DELETE FROM d WHERE(a)`, `WITH [check 1] DELETE FROM d WHERE [ok] AND ((a))`},
		{"a condition that is a string, without a space", `DELETE FROM d WHERE't'`, `WITH [check 1] DELETE FROM d WHERE [ok] AND ('t')`},
		{"a cursor's row has the check at the head alone", `UPDATE d SET v=1 WHERE CURRENT OF c RETURNING v`,
			`WITH [head 1] UPDATE d SET v=1 WHERE CURRENT OF c RETURNING v`},
		{"a column of the name current", `UPDATE d SET v=1 WHERE current = 1`, `WITH [check 1] UPDATE d SET v=1 WHERE [ok] AND (current = 1)`},
		{"a column of the name values", `DELETE FROM d WHERE values = 1`, `WITH [check 1] DELETE FROM d WHERE [ok] AND (values = 1)`},
	})
}

func TestPostgreSQLWritesThatTakeTheCheckAtTheirHead(t *testing.T) {
	testShapes(t, sqlgen.PostgreSQL, []shape{
		{"VALUES", `INSERT INTO d (a, b) VALUES ($1, DEFAULT), (NULL, 'x')`, `WITH [head 2] INSERT INTO d (a, b) VALUES ($1, DEFAULT), (NULL, 'x')`},
		{"DEFAULT VALUES", `INSERT INTO d DEFAULT VALUES RETURNING id`, `WITH [head 1] INSERT INTO d DEFAULT VALUES RETURNING id`},
		{"OVERRIDING SYSTEM VALUE", `INSERT INTO d AS x (id) OVERRIDING SYSTEM VALUE VALUES (1)`, `WITH [head 1] INSERT INTO d AS x (id) OVERRIDING SYSTEM VALUE VALUES (1)`},
		{"a query", `INSERT INTO s.d SELECT * FROM y WHERE z`, `WITH [head 1] INSERT INTO s.d SELECT * FROM y WHERE z`},
		{"a query in brackets", `INSERT INTO d (a) (SELECT 1)`, `WITH [head 1] INSERT INTO d (a) (SELECT 1)`},
		{"a query with a WITH list of its own", `INSERT INTO d WITH x AS (SELECT 1) SELECT * FROM x`, `WITH [head 1] INSERT INTO d WITH x AS (SELECT 1) SELECT * FROM x`},
		{"DO NOTHING (CASES D25)", `INSERT INTO d VALUES (1) ON CONFLICT DO NOTHING`, `WITH [head 1] INSERT INTO d VALUES (1) ON CONFLICT DO NOTHING`},
		{"DO UPDATE with an arbiter's condition and one of its own",
			`INSERT INTO d VALUES ($1) ON CONFLICT (id) WHERE a DO UPDATE SET v = excluded.v WHERE d.v <> excluded.v RETURNING *`,
			`WITH [head 2] INSERT INTO d VALUES ($1) ON CONFLICT (id) WHERE a DO UPDATE SET v = excluded.v WHERE d.v <> excluded.v RETURNING *`},
		{"ON CONSTRAINT", `INSERT INTO d VALUES (1) ON CONFLICT ON CONSTRAINT c DO NOTHING`, `WITH [head 1] INSERT INTO d VALUES (1) ON CONFLICT ON CONSTRAINT c DO NOTHING`},
		{"MERGE", `MERGE INTO d USING s ON d.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (1);`,
			`WITH [head 1] MERGE INTO d USING s ON d.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (1);`},
		{"MERGE into ONLY", `MERGE INTO ONLY d AS t USING s ON true WHEN MATCHED THEN DO NOTHING`, `WITH [head 1] MERGE INTO ONLY d AS t USING s ON true WHEN MATCHED THEN DO NOTHING`},
	})
}

func TestPostgreSQLWithLists(t *testing.T) {
	testShapes(t, sqlgen.PostgreSQL, []shape{
		{"a write inside WITH under a SELECT (CASES D23)", `WITH x AS (DELETE FROM d RETURNING id) SELECT * FROM x`,
			`WITH [head 1], x AS (DELETE FROM d RETURNING id) SELECT * FROM x`},
		{"under VALUES", `WITH x AS (DELETE FROM d) VALUES (1)`, `WITH [head 1], x AS (DELETE FROM d) VALUES (1)`},
		{"under TABLE", `WITH x AS (DELETE FROM d RETURNING *) TABLE x`, `WITH [head 1], x AS (DELETE FROM d RETURNING *) TABLE x`},
		{"under a query in brackets", `WITH x AS (DELETE FROM d) (SELECT 1) UNION (SELECT 2)`, `WITH [head 1], x AS (DELETE FROM d) (SELECT 1) UNION (SELECT 2)`},
		{"an UPDATE behind a query", `WITH x AS (SELECT 1) UPDATE d SET v=1`, `WITH [check 1], x AS (SELECT 1) UPDATE d SET v=1 WHERE [ok]`},
		{"an UPDATE behind a write", `with x as (insert into e values (1) returning a) update d set v=1 from x where d.a = x.a`,
			`with [check 1], x as (insert into e values (1) returning a) update d set v=1 from x where [ok] AND (d.a = x.a)`},
		{"RECURSIVE", `WITH RECURSIVE x(n) AS (SELECT 1 UNION SELECT n+1 FROM x) DELETE FROM d USING x`,
			`WITH RECURSIVE [check 1], x(n) AS (SELECT 1 UNION SELECT n+1 FROM x) DELETE FROM d USING x WHERE [ok]`},
		{"a member of the name recursive", `WITH recursive AS (SELECT 1) DELETE FROM d`, `WITH [check 1], recursive AS (SELECT 1) DELETE FROM d WHERE [ok]`},
		{"MATERIALIZED and NOT", `WITH x AS MATERIALIZED (SELECT 1), y AS NOT MATERIALIZED (SELECT 2) INSERT INTO d SELECT 1`,
			`WITH [head 1], x AS MATERIALIZED (SELECT 1), y AS NOT MATERIALIZED (SELECT 2) INSERT INTO d SELECT 1`},
		{"SEARCH and CYCLE", `WITH RECURSIVE x(a,b) AS (SELECT 1,2) SEARCH DEPTH FIRST BY a, b SET o CYCLE a SET c TO true DEFAULT false USING p UPDATE d SET v=1`,
			`WITH RECURSIVE [check 1], x(a,b) AS (SELECT 1,2) SEARCH DEPTH FIRST BY a, b SET o CYCLE a SET c TO true DEFAULT false USING p UPDATE d SET v=1 WHERE [ok]`},
		{"a write with a WITH list of its own", `WITH x AS (WITH y AS (SELECT 1) INSERT INTO d SELECT * FROM y RETURNING *) SELECT * FROM x`,
			`WITH [head 1], x AS (WITH y AS (SELECT 1) INSERT INTO d SELECT * FROM y RETURNING *) SELECT * FROM x`},
		{"a quoted name right behind WITH", `WITH"x"AS (SELECT 1) DELETE FROM d`, `WITH [check 1],"x"AS (SELECT 1) DELETE FROM d WHERE [ok]`},
	})
}

func TestPostgreSQLCommentsSemicolonsAndOddNames(t *testing.T) {
	testShapes(t, sqlgen.PostgreSQL, []shape{
		{"a trailing comment without a newline (CASES D22)", `UPDATE d SET v='x' WHERE id=1 -- note`, `WITH [check 1] UPDATE d SET v='x' WHERE [ok] AND (id=1) -- note`},
		{"a trailing comment and no WHERE", `DELETE FROM d -- WHERE`, `WITH [check 1] DELETE FROM d WHERE [ok] -- WHERE`},
		{"a semicolon", `UPDATE d SET v='x' WHERE id=1;`, `WITH [check 1] UPDATE d SET v='x' WHERE [ok] AND (id=1);`},
		{"semicolons and a comment", `UPDATE d SET v='x' WHERE id=1;; -- it's done`, `WITH [check 1] UPDATE d SET v='x' WHERE [ok] AND (id=1);; -- it's done`},
		{"a semicolon in front", `; DELETE FROM d`, `; WITH [check 1] DELETE FROM d WHERE [ok]`},
		{"a leading comment", `/* a */ UPDATE d SET v=1`, `/* a */ WITH [check 1] UPDATE d SET v=1 WHERE [ok]`},
		{"a leading line comment", "-- name: X :exec\nDELETE FROM d", "-- name: X :exec\nWITH [check 1] DELETE FROM d WHERE [ok]"},
		{"a WHERE in a comment", `UPDATE d SET v='x' /* WHERE */`, `WITH [check 1] UPDATE d SET v='x' WHERE [ok] /* WHERE */`},
		{"comments that nest", `DELETE FROM d /* a /* WHERE */ b */ WHERE c`, `WITH [check 1] DELETE FROM d /* a /* WHERE */ b */ WHERE [ok] AND (c)`},
		{"a comment that begins inside an operator", "DELETE FROM d WHERE a=--\n1", "WITH [check 1] DELETE FROM d WHERE [ok] AND (a=--\n1)"},
		{"a carriage return ends a comment", "DELETE FROM d -- x\rWHERE a", "WITH [check 1] DELETE FROM d -- x\rWHERE [ok] AND (a)"},
		{"keywords in quotes (CASES D28)", `UPDATE "where" SET "set"=1 WHERE "update"='a'`, `WITH [check 1] UPDATE "where" SET "set"=1 WHERE [ok] AND ("update"='a')`},
		{"a table of the name set", `UPDATE set SET set = 1 WHERE set = 2`, `WITH [check 1] UPDATE set SET set = 1 WHERE [ok] AND (set = 2)`},
		{"an alias of the name set", `UPDATE d AS set SET v = 1 WHERE a`, `WITH [check 1] UPDATE d AS set SET v = 1 WHERE [ok] AND (a)`},
		{"keywords as labels", `UPDATE d SET v=1 RETURNING a AS where, b AS returning`, `WITH [check 1] UPDATE d SET v=1 WHERE [ok] RETURNING a AS where, b AS returning`},
		{"keywords behind a dot", `UPDATE d SET v=1 WHERE d.where AND d . returning`, `WITH [check 1] UPDATE d SET v=1 WHERE [ok] AND (d.where AND d . returning)`},
		{"AS as a label does not make a label of the next word", `UPDATE d SET v = x.as WHERE a`, `WITH [check 1] UPDATE d SET v = x.as WHERE [ok] AND (a)`},
		{"a composite parameter's field", `UPDATE d SET v = $1.where WHERE a`, `WITH [check 2] UPDATE d SET v = $1.where WHERE [ok] AND (a)`},
	})
}

func TestPostgreSQLStringsHideWhatIsInThem(t *testing.T) {
	testShapes(t, sqlgen.PostgreSQL, []shape{
		{"a doubled quote", `UPDATE d SET v='it''s WHERE' WHERE a`, `WITH [check 1] UPDATE d SET v='it''s WHERE' WHERE [ok] AND (a)`},
		{"backslashes that are not before a quote", `UPDATE d SET v='\d \\' WHERE a`, `WITH [check 1] UPDATE d SET v='\d \\' WHERE [ok] AND (a)`},
		{"E'…'", `UPDATE d SET v=E'\' WHERE ' WHERE a`, `WITH [check 1] UPDATE d SET v=E'\' WHERE ' WHERE [ok] AND (a)`},
		{"E'…' goes on in the next line, with its backslashes", "UPDATE d SET v=e'a' -- c\n  '\\' WHERE ' WHERE a", "WITH [check 1] UPDATE d SET v=e'a' -- c\n  '\\' WHERE ' WHERE [ok] AND (a)"},
		{"dollar quotes", `UPDATE d SET v=$$ WHERE '$$ WHERE a`, `WITH [check 1] UPDATE d SET v=$$ WHERE '$$ WHERE [ok] AND (a)`},
		{"tagged dollar quotes with others inside", `UPDATE d SET v=$a$ $$ $b$ $1 WHERE $a$ WHERE a=$1`, `WITH [check 2] UPDATE d SET v=$a$ $$ $b$ $1 WHERE $a$ WHERE [ok] AND (a=$1)`},
		{"a tag that begins like the end of another", `UPDATE d SET v=$a$ $b$a$ WHERE a`, `WITH [check 1] UPDATE d SET v=$a$ $b$a$ WHERE [ok] AND (a)`},
		{"a dollar sign inside a name", `UPDATE d SET a$$b = 1 WHERE c$$`, `WITH [check 1] UPDATE d SET a$$b = 1 WHERE [ok] AND (c$$)`},
		{"bit strings and blobs", `UPDATE d SET v=B'01', w=X'FF' WHERE a`, `WITH [check 1] UPDATE d SET v=B'01', w=X'FF' WHERE [ok] AND (a)`},
		{"U&'…'", `UPDATE d SET v=U&'\0041 WHERE' UESCAPE '!' WHERE a`, `WITH [check 1] UPDATE d SET v=U&'\0041 WHERE' UESCAPE '!' WHERE [ok] AND (a)`},
		{"a quote in a quoted name", `UPDATE d SET "a""WHERE" = 1 WHERE b`, `WITH [check 1] UPDATE d SET "a""WHERE" = 1 WHERE [ok] AND (b)`},
	})
}

func TestPostgreSQLParameters(t *testing.T) {
	testShapes(t, sqlgen.PostgreSQL, []shape{
		{"in any order (CASES D27)", `UPDATE d SET v=1 WHERE email=$2 AND name=$1`, `WITH [check 3] UPDATE d SET v=1 WHERE [ok] AND (email=$2 AND name=$1)`},
		{"twice", `UPDATE d SET v=$1 WHERE w=$1`, `WITH [check 2] UPDATE d SET v=$1 WHERE [ok] AND (w=$1)`},
		{"ten of them", `INSERT INTO d VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)`, `WITH [head 11] INSERT INTO d VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)`},
		{"one in the middle unused", `UPDATE d SET v=$1 WHERE w=$3`, `WITH [check 4] UPDATE d SET v=$1 WHERE [ok] AND (w=$3)`},
		{"the question marks of jsonb", `UPDATE d SET v=1 WHERE meta ? 'k' AND a ?| $2 AND b ?& $1`, `WITH [check 3] UPDATE d SET v=1 WHERE [ok] AND (meta ? 'k' AND a ?| $2 AND b ?& $1)`},
		{"none in strings and comments", `UPDATE d SET v='$7' /* $8 */ WHERE a=$1 -- $9`, `WITH [check 2] UPDATE d SET v='$7' /* $8 */ WHERE [ok] AND (a=$1) -- $9`},
		{"a cast right behind one", `UPDATE d SET v=$1::int WHERE a=-$2`, `WITH [check 3] UPDATE d SET v=$1::int WHERE [ok] AND (a=-$2)`},
	})
}
