package main

// oddSQLite are tokens that are odd on SQLite.
var oddSQLite = []string{
	"[a]", "[a b]", "[WHERE]", "[']", "[--]", "`a`", "`WHERE`", "`a``b`", "'a'", "''''", "x'00'", "X'ff'", "?", "?1", "?7", ":a", "@b", "$c", "$c::d(e)", "#1",
	"INSERT OR REPLACE INTO", "INSERT OR IGNORE INTO", "REPLACE INTO", "UPDATE OR FAIL", "OR ROLLBACK", "INDEXED BY i", "NOT INDEXED",
	"/* open", "/* /* */", "/* ' */", "-- c\n", "-- '\n", "==", "<<", ">>", "~", "GLOB", "MATCH", "REGEXP", "LIKE '%' ESCAPE '!'", "ISNULL", "NOTNULL", "NOT NULL", "IS NOT DISTINCT FROM",
	"LIMIT 1", "LIMIT 1 OFFSET 0", "ORDER BY 1", "ORDER BY id LIMIT 1", "main.", "temp.", "MAIN.", "rowid", "_rowid_", "CAST(a AS text)", "RAISE(IGNORE)", "count(*) FILTER (WHERE id)", "sum(id) OVER (PARTITION BY id)",
	"ON CONFLICT DO NOTHING", "ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE true", "ON CONFLICT (id) WHERE id DO NOTHING", "WHERE true", "RETURNING *", "RETURNING id AS x",
	"VALUES (1), (2)", "DEFAULT VALUES", "UNION SELECT 1", "UNION ALL VALUES (1)", "WITH x AS (SELECT 1)", "WITH RECURSIVE x AS (SELECT 1)", "WITH x AS MATERIALIZED (SELECT 1)", "EXISTS (SELECT 1)", "(SELECT 1 WHERE 0 OR 1)",
	"a", "b", "id", "replace", "key", "if", "offset", "abort", "fail", "plan", "query", "conflict", "do", "filter", "over", "window", "sqlfence_f", "sqlfence_fences", "main.sqlfence_fences", "sqlfence_f.grant_id",
	"1e5", "0x1F", "1_000", ".5", "5.", ";", "(", ")", ",", "AND", "OR", "NOT", "WHERE", "SET", "FROM", "FROM t", "JOIN t", "\v", "\f", "\r", "\ufeff", "\u00a0",
	"CASE WHEN 1 THEN 2 END", "BETWEEN 1 AND 2", "IN (1, 2)", "IN ()", "IN t", "COLLATE nocase", "->", "->>", "||",
}

// framesSQLite put a statement to another use on SQLite; %s is its text.
var framesSQLite = []string{
	"EXPLAIN %s", "EXPLAIN QUERY PLAN %s", "%s;", "; %s", "%s ; ;", "%s -- end", "%s; -- end", "%s /* end */", "%s /* end", "-- start\n%s", "/* start */ %s", "SELECT 1; %s", "%s; SELECT 1", "%s; DELETE FROM t", "\ufeff%s",
	"WITH w AS (SELECT 1) %s", "WITH w(a) AS (VALUES (1)), v AS (SELECT * FROM w) %s", "WITH RECURSIVE w AS (SELECT 1) %s", "CREATE TABLE n AS %s", "CREATE TRIGGER r AFTER INSERT ON t BEGIN %s; END",
	"CREATE TEMP TRIGGER r AFTER UPDATE ON t WHEN new.id BEGIN %s; DELETE FROM t; END", "CREATE VIEW v AS %s", "INSERT INTO t %s", "INSERT INTO t(id) %s", "INSERT INTO t %s ON CONFLICT DO NOTHING",
	"INSERT INTO t (id) %s ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE 0 OR 1", "INSERT INTO t SELECT * FROM (%s)", "INSERT INTO t SELECT 1 UNION %s", "UPDATE t SET id = (%s) WHERE 0 OR 1", "DELETE FROM t WHERE id IN (%s) OR 1",
	"UPDATE t SET id = id FROM (%s) AS x WHERE 1 OR 0", "SELECT * FROM (%s)", "SELECT (%s)", "(%s)", "BEGIN; %s; COMMIT", "-- c\nCOMMIT -- %s", "\ufeffBEGIN", "/* %s */ ROLLBACK", "; END", "\ufeff ; \ufeffSAVEPOINT a", "\v BEGIN", "\t\vCOMMIT",
}
