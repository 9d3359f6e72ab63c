package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// oddMySQL are tokens that are odd on MySQL and MariaDB.
var oddMySQL = []string{
	"WHERE", "SET", "FROM", "USING", "WITH", "AS", "(", ")", ",", ";", "AND", "OR", "NOT", "XOR", "&&", "||", "SELECT", "VALUES", "VALUE", "DEFAULT", "DEFAULT(id)", "INSERT INTO", "REPLACE", "UPDATE", "DELETE FROM",
	"LOW_PRIORITY", "HIGH_PRIORITY", "IGNORE", "QUICK", "PARTITION (p0)", "HISTORY", "RETURNING *", "RETURNING id", "ON DUPLICATE KEY UPDATE id = id", "ON DUPLICATE KEY UPDATE id = VALUES(id) + 1", "HAVING 1 OR 0", "HAVING COUNT(*) > 0", "GROUP BY 1", "GROUP BY id WITH ROLLUP", "WITH ROLLUP",
	"ORDER BY 1", "ORDER BY id LIMIT 1", "LIMIT 1", "LIMIT 1 OFFSET 0", "LIMIT 0, 1", "LIMIT ROWS EXAMINED 1", "OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY", "FOR UPDATE", "LOCK IN SHARE MODE", "FOR PORTION OF p FROM 1 TO 2", "PROCEDURE ANALYSE()", "INTO @x", "INTO OUTFILE 'x'",
	"UNION SELECT 1", "UNION ALL SELECT 1", "EXCEPT SELECT 1", "INTERSECT SELECT 1", "(SELECT 1 WHERE 0 OR 1)", "EXISTS (SELECT 1)", "IN (SELECT id FROM t)", "IN (1, 2)", "BETWEEN 1 AND 2", "JOIN t", "LEFT JOIN t ON 1", "STRAIGHT_JOIN t", "NATURAL JOIN t", ", t", "JOIN (SELECT 1 AS id) q", "USING (id)",
	"USE INDEX (id)", "FORCE INDEX FOR ORDER BY (id)", "DISTINCT", "SQL_CALC_FOUND_ROWS", "STRAIGHT_JOIN", "OVER ()", "OVER w", "WINDOW w AS (ORDER BY id)", "ROW_NUMBER() OVER (ORDER BY id)", "WITH x AS (SELECT 1)", "WITH RECURSIVE x AS (SELECT 1)", "WITH sqlfence_guard AS (SELECT 1)",
	"/* c */", "/* ' */", "/* /* */", "/* `*/", "/*! 1 */", "/*!99999 x */", "/*M! OR 1 */", "/*+ x */", "/*+ ` */", "-- c\n", "-- '\n", "--", "--1", "--\n", "# c\n", "# '\n", "#", "\\N", "\\",
	"''", "' '", "''''", "'WHERE'", "'/*'", "'a' 'b'", `'\''`, `'\\'`, `'\n'`, `"a"`, `""""`, `"\""`, `"WHERE"`, "`a`", "`WHERE`", "`a``b`", "`'`", "N'n'", "_utf8mb4'x'", "_binary'x'", "x'00'", "X'ff'", "b'1'", "0x1F", "0x1G", "0b1", "0b2", "'ü\\\\'", "é",
	"1e5", "1e5x", "1.5", ".5", "5.", "1_000", "2tab", "t.1e5", "t.*", "a.b", "a . b", ".a", "?", "? + ?", ":=", "@x", "@x := 1", "@`x`", "@'x'", "@@sql_mode", "@@session.sql_mode", "@@global.x", "{d '2020-01-01'}", "{", "}", "[1]", "->", "->>", "<=>", "<>", "!", "~", "^", "|", "&", "<<", ">>", "DIV", "MOD", "%", "RLIKE 'a'", "SOUNDS LIKE 'a'", "IS NULL", "COLLATE utf8mb4_bin", "BINARY", "INTERVAL 1 DAY",
	"NULL", "TRUE", "COUNT(*)", "SUM(id)", "MAX(id)", "NOW()", "IF(1, 2, 3)", "CASE WHEN 1 THEN 2 END", "CAST(1 AS CHAR)", "CONVERT('x' USING utf8mb4)", "VALUES(id)", "LAST_INSERT_ID(5)", "f(1)", "id", "t", "t.id", "DUAL", "FROM DUAL", "returning", "value", "history", "quick", "offset", "window", "begin", "end", "sqlfence_g", "sqlfence_guard", "at", "\v", "\f", "\r", "\u00a0", "\ufeff",
}

// framesMySQL put a statement to another use; %s is its text.
var framesMySQL = []string{
	"EXPLAIN %s", "EXPLAIN FORMAT = JSON %s", "EXPLAIN ANALYZE %s", "ANALYZE %s", "ANALYZE FORMAT = JSON %s", "DESCRIBE %s", "%s;", "; %s", "%s ; ;", "%s -- end", "%s # end", "%s /* end */", "%s /* end", "-- start\n%s", "# start\n%s", "/* start */ %s", "/*! %s */", "SELECT 1; %s", "%s; SELECT 1", "%s; DELETE FROM t",
	"SET STATEMENT max_statement_time = 2 FOR %s", "SET STATEMENT sql_mode = '' FOR %s", "INSERT INTO t %s", "INSERT INTO t (id) %s", "INSERT INTO t (id) (%s)", "INSERT INTO t (id) %s ON DUPLICATE KEY UPDATE id = id + 1", "REPLACE t %s", "INSERT INTO t (id) %s UNION SELECT 1", "INSERT INTO t SELECT * FROM (%s) q", "INSERT INTO t (id) WITH x AS (%s) SELECT 1 FROM x", "INSERT INTO t (id) VALUES ((%s))",
	"UPDATE t SET id = (%s) WHERE 0 OR 1", "UPDATE t JOIN (%s) AS q SET t.id = 1 WHERE 0 OR 1", "DELETE FROM t WHERE id IN (%s) OR 1", "DELETE t FROM t JOIN (%s) q WHERE 1 OR 0", "CREATE TABLE n AS %s", "CREATE VIEW v AS %s", "CREATE PROCEDURE p() %s", "CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW BEGIN %s; END", "BEGIN NOT ATOMIC %s; END",
	"SELECT * FROM (%s) AS x", "SELECT (%s)", "(%s)", "((%s))", "WITH w AS (%s) SELECT 1", "WITH w AS (%s) UPDATE t SET id = 1", "PREPARE p FROM '%s'", "BEGIN; %s; COMMIT", "IF 1 THEN %s; END IF", "/* %s */ ROLLBACK", "DO (%s)", "HANDLER t OPEN; %s",
}

// mysqlMutations judges mutated statements on a server for a while.
func mysqlMutations(ctx context.Context, dsn string, statements []statement, total *tally, seed uint64, d time.Duration) (err error) {
	r, err := openMySQLReplay(ctx, dsn, total)
	if err != nil {
		return fmt.Errorf("mysql: %w", err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	var texts []string
	for _, s := range statements {
		if s.Dialect == "mysql" || singleWrite.MatchString(s.SQL) && !strings.Contains(s.SQL, "$") {
			texts = append(texts, asSent(s))
		}
	}
	m := newMutator(seed, texts, oddMySQL, framesMySQL)
	made := 0
	for end := time.Now().Add(d); time.Now().Before(end); made++ {
		if made%200 == 0 {
			if err := r.reset(); err != nil {
				return err
			}
		}
		text, accepted := m.next(), r.prepared
		if err := r.judge(text, "mutation"); err != nil {
			return fmt.Errorf("mysql: %s: %w", quote(text), err)
		}
		if r.prepared > accepted {
			m.keep(text, mysqlWrites.MatchString(text))
		}
	}
	total.statements += r.prepared
	total.spliced += r.spliced
	total.refused += r.refused
	fmt.Printf("%s mutations: %d made, %d accepted, %d write; %d spliced and replayed, %d of them without an error, %d checked first, %d refused\n",
		r.version, made, r.prepared, r.writes, r.replayed, r.succeeded, r.checked, r.refused)
	r.refusals.print(false)
	return nil
}
