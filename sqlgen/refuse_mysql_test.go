package sqlgen_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestMySQLFailsClosed(t *testing.T) {
	testRefused(t, sqlgen.MySQL, []refusal{
		{"two operators that a space makes a comment of", "UPDATE d SET v = 1 --#", "ends in a minus"},
		{"the same in a condition", "DELETE FROM d WHERE a --# b", "ends in a minus"},
		{"the same before another clause", "UPDATE d SET v = 1 --#\nORDER BY id", "ends in a minus"},
		{"a comment that is executed", `DELETE FROM d /*! WHERE 1=1 OR */`, "servers execute"},
		{"with a version", `DELETE FROM d WHERE a /*!50000 OR 1 */`, "servers execute"},
		{"MariaDB's own", `DELETE FROM d WHERE a /*M!100100 OR 1 */`, "servers execute"},
		{"a hint that hides its end", "DELETE /*+ QB_NAME(`*/ FROM d WHERE a /*`) */ FROM d", "hint"},
		{"a comment without an end", `DELETE FROM d /* WHERE`, "unterminated comment"},
		{"a backslash before a quote", `DELETE FROM d WHERE a = 'x\' OR ' OR 1=1`, "sql_mode"},
		{"the same behind a character that is not ASCII", `DELETE FROM d WHERE a = 'ü\\' OR 'b'`, "sql_mode"},
		{"a backslash before the double quote", `DELETE FROM d WHERE a = "x\" OR 1=1 OR """`, "sql_mode"},
		{"a backslash before the end of a name in double quotes", `UPDATE d SET "a\" = 1 WHERE "b"`, "sql_mode"},
		{"a string without an end", `DELETE FROM d WHERE a = 'x`, "unterminated string"},
		{"a name without an end", "DELETE FROM `d", "unterminated quoted identifier"},
		{"a variable's name without an end", "DELETE FROM d WHERE @`a", "unterminated"},
		{"a bracket that closes ours", `DELETE FROM d WHERE x) OR (1=1`, "closing bracket"},
		{"a square bracket for a round one", `DELETE FROM d WHERE (a]`, "closing bracket"},
		{"a NUL byte", "DELETE FROM d -- x\x00\n WHERE id = 1", "NUL"},
		{"a control character", "DELETE FROM d WHERE \x01", "no SQL text may hold"},
		{"a backslash", `DELETE FROM d \g`, "backslash"},
		{"a number that runs into a word", `DELETE FROM d WHERE a=1.5OR 1=1`, "runs into a word"},
		{"an exponent that runs into a word", `DELETE FROM d WHERE a=1e5OR 1=1`, "runs into a word"},
		{"white space of some character sets behind two minuses", "DELETE FROM d --\u00a0x\n WHERE a", "two dashes"},
		{"two minuses that ours would make a comment of", "UPDATE d SET a=--LIMIT 1\n1", "minus"},
		{"two minuses at the end of a query", "INSERT INTO d SELECT 1--LIMIT 1\n1", "minus"},
		{"white space of latin1", "SET @x=1,\xa0autocommit=1", "character sets"},
		{"the same in a word", "SELECT 1\xa0INTO\xa0OUTFILE 'x'", "character sets"},
		{"the same behind a variable", "SET @x\xa0=1", "character sets"},
		{"the same behind a number", "SELECT 1\xa0INTO OUTFILE 'x'", "character sets"},
		{"the same as a part of a character", "DELETE FROM dà", "character sets"},
		{"white space of KOI8", "DELETE FROM d\x9aWHERE a", "character sets"},
		{"white space of code page 850", "DELETE FROM d\xffWHERE a", "character sets"},
		{"a name that is not UTF-8", "DELETE FROM gr\xfc\xdfe", "UTF-8"},
		{"a string in dollar quotes, which MySQL 8.0 and MariaDB read as two names", `DELETE FROM d WHERE a = $$ OR b /* $$ OR 1=1 -- */`, "dollar"},
		{"the same with a tag", `SELECT $a$ INTO OUTFILE 'x' $a$`, "dollar"},
		{"the same in several statements", `SELECT 1 $$; DELETE FROM d; $$`, "dollar"},
		{"two WHERE", `DELETE FROM d WHERE a WHERE b`, "WHERE"},
		{"a WHERE behind LIMIT", `DELETE FROM d LIMIT 1 WHERE b`, "understood"},
		{"an empty WHERE", `UPDATE d SET v=1 WHERE`, "WHERE"},
		{"a list", `UPDATE d SET v = 1 WHERE b, 2`, "WHERE"},
		{"a query for a condition", `DELETE FROM d WHERE SELECT true`, "WHERE"},
		{"VALUES for a condition", `DELETE FROM d WHERE VALUES (1)`, "WHERE"},
		{"TABLE for a condition", `DELETE FROM d WHERE TABLE t`, "WHERE"},
		{"an UPDATE without SET", `UPDATE d x`, "SET"},
		{"an UPDATE of nothing", `UPDATE SET v=1`, "SET"},
		{"an UPDATE of a join of nothing", `UPDATE d JOIN SET v=1`, "table"},
		{"a join of ODBC", `UPDATE {OJ a LEFT JOIN b ON a.id=b.id} SET a.v=1`, "table"},
		{"a DELETE without FROM", `DELETE d`, "FROM"},
		{"a DELETE from something else", `DELETE FROM (SELECT 1) x`, "table"},
		{"a DELETE with a rest", `DELETE FROM d x y WHERE a`, "table"},
		{"a DELETE of tables that is none", `DELETE a, FROM a JOIN b`, "tables"},
		{"an INSERT without rows", `INSERT INTO d (a)`, "rows"},
		{"an INSERT of half a row", `INSERT INTO d VALUES`, "rows"},
		{"an INSERT of a row and a rest", `INSERT INTO d VALUES (1) (2)`, "rows"},
		{"an INSERT of a row and a word", `INSERT INTO d VALUES (1) x`, "rows"},
		{"DELAYED rows", `INSERT DELAYED INTO d VALUES (1)`, "later"},
		{"an empty query", `INSERT INTO d SELECT LIMIT 1`, "query"},
		{"an empty HAVING", `INSERT INTO d SELECT a HAVING LIMIT 1`, "HAVING"},
		{"a HAVING of a list", `INSERT INTO d SELECT a HAVING a, b`, "HAVING"},
		{"a WITH list before INSERT", `WITH x AS (SELECT 1) INSERT INTO d SELECT * FROM x`, "WITH"},
		{"a WITH list alone", `WITH x AS (SELECT 1)`, "WITH"},
		{"a compound statement", `BEGIN NOT ATOMIC UPDATE d SET v=1; COMMIT; END`, "cannot be seen"},
		{"the same of Oracle's mode", `BEGIN DELETE FROM d`, "cannot be seen"},
		{"a compound IF", `IF 1 THEN DELETE FROM d; END IF`, "unknown verb"},
		{"a label", `a: LOOP DELETE FROM d; LEAVE a; END LOOP`, "unknown verb"},
		{"several statements", `SELECT 1; UPDATE d SET v=1`, "guarded as one"},
		{"a write behind a routine", `CREATE PROCEDURE p() BEGIN SELECT 1; END; DELETE FROM d`, "guarded as one"},
		{"END is no COMMIT", `END`, "unknown verb"},
		{"settings for nothing", `SET STATEMENT a=1`, "no statement"},
		{"an unknown XA", `XA FORGET 'x'`, "second word"},
		{"LOAD DATA into nothing", `LOAD DATA INFILE 'x'`, "table"},
		{"ANALYZE of nothing", `ANALYZE`, "nothing to explain"},
		{"an UPSERT", `UPSERT INTO d VALUES (1)`, "unknown verb"},
	})
}

// TestMySQLChecksFirstWhatTakesNoFence gives the reason of each (DESIGN §4).
func TestMySQLChecksFirstWhatTakesNoFence(t *testing.T) {
	for _, c := range []struct{ text, reason string }{
		{`INSERT INTO d VALUES ROW(1), ROW(2)`, "VALUES ROW"},
		{`INSERT INTO d VALUES ()`, "first row"},
		{`INSERT INTO d VALUES (), (1)`, "first row"},
		{`INSERT INTO d VALUES (DEFAULT), (1)`, "first row"},
		{`INSERT INTO d VALUES (0x41, -1, b'1', a, (1), 'a' 'b', "a", _utf8'x', N'x', \N, ?+1, {d '2020-01-01'})`, "first row"},
		{`INSERT INTO d VALUES ((SELECT MAX(a) FROM d WHERE a = ?))`, "first row"},
		{`INSERT INTO d SET a=DEFAULT, b=c=1, d=-1, e=(2)`, "first row"},
		{`INSERT IGNORE INTO d VALUES (1)`, "IGNORE"},
		{`INSERT IGNORE d SET a=1`, "IGNORE"},
		{`INSERT IGNORE d VALUES (1) ON DUPLICATE KEY UPDATE a=1`, "IGNORE"},
		{`SELECT SETVAL(s, 5)`, "condition"},
		{`DO SETVAL(s, 5)`, "condition"},
		{`(SELECT 1, setval /* x */ (s, 5))`, "condition"},
		{`INSERT INTO d VALUES (1, SETVAL(s, 5))`, "program's own"},
		{`INSERT INTO d TABLE y`, "TABLE"},
		{`INSERT INTO d (VALUES (1))`, "no condition"},
		{`INSERT INTO d SELECT 1 UNION SELECT 2`, "several queries"},
		{`INSERT INTO d SELECT a FROM y WINDOW w AS (ORDER BY a) QUALIFY ROW_NUMBER() OVER w = 1 ORDER BY a`, "QUALIFY"},
		{`INSERT INTO d (SELECT 1) UNION (SELECT 2)`, "several queries"},
		{`INSERT INTO d ((SELECT 1) EXCEPT (SELECT 2))`, "several queries"},
		{`INSERT INTO d SELECT 1 INTERSECT SELECT 2 ORDER BY 1`, "several queries"},
		{`INSERT INTO d (SELECT 1) LIMIT 1`, "several queries"},
		{`INSERT INTO d WITH x AS (SELECT 1) (SELECT * FROM x)`, "no condition"},
		{`DELETE HISTORY FROM d`, "HISTORY"},
		{`UPDATE d JOIN (SELECT f(1) AS x) s SET v=1`, "program's own"},
		{`UPDATE d SET v=1 WHERE s.f(1)`, "program's own"},
		{"DELETE FROM d WHERE `upper`(1)", "program's own"},
		{`INSERT INTO d VALUES (1, f(1))`, "program's own"},
		{`INSERT INTO d VALUES (1), (f(1))`, "program's own"},
		{`INSERT INTO d SELECT a FROM y WHERE f(1)`, "program's own"},
		{`LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE s.d (a, @b) SET c=1`, "condition"},
		{`LOAD XML INFILE 'x' INTO TABLE d`, "condition"},
		{`WITH sqlfence_guard AS (SELECT 1) UPDATE d SET v=1`, "name of the fence"},
		{"INSERT INTO d WITH `SQLFENCE_guard` (a) AS (SELECT 1) SELECT * FROM sqlfence_guard", "name of the fence"},
	} {
		p := sqlgen.Analyze(sqlgen.MySQL, c.text)
		if p.Strategy != sqlgen.CheckFirst || !strings.Contains(p.Reason, c.reason) {
			t.Errorf("%s\nis %v: %s, expected check first: …%s…", c.text, p.Strategy, p.Reason, c.reason)
		}
	}
}

func TestMySQLStatementsThatEndTheTransactionAreRefused(t *testing.T) {
	for text, commits := range map[string]bool{
		`TRUNCATE d`: true, `CREATE TABLE x (a INT)`: true, `ALTER TABLE d ADD x INT`: true, `DROP TABLE d`: true, `RENAME TABLE a TO b`: true,
		`GRANT ALL ON *.* TO u`: true, `REVOKE ALL ON *.* FROM u`: true, `LOCK TABLES d WRITE`: true, `UNLOCK TABLES`: true, `ANALYZE TABLE d`: true,
		`ANALYZE NO_WRITE_TO_BINLOG TABLE d`: true, `OPTIMIZE TABLE d`: true, `REPAIR TABLE d`: true, `CHECK TABLE d`: true, `FLUSH TABLES`: true,
		`CACHE INDEX d IN c`: true, `LOAD INDEX INTO CACHE d`: true, `RESET MASTER`: true, `START SLAVE`: true, `STOP REPLICA`: true, `CHANGE MASTER TO a=1`: true,
		`INSTALL PLUGIN a SONAME 'b'`: true, `SET autocommit=0`: true, `SET @x=1, @@SESSION.AutoCommit=1`: true, "SET `autocommit`=1": true, `SET PASSWORD = 'x'`: true,
		`SET DEFAULT ROLE NONE TO u`: true, `CALL p()`: true, `EXECUTE s`: true, `EXECUTE IMMEDIATE 'COMMIT'`: true, `SET STATEMENT a=1 FOR TRUNCATE d`: true,
		`SELECT 1; TRUNCATE d`: true, `BEGIN NOT ATOMIC COMMIT; END`: true,
		`PREPARE s FROM 'x'`: false, `SELECT * FROM d INTO OUTFILE 'x'`: false, `UPDATE d SET v=1; SELECT 1`: false,
	} {
		p := sqlgen.Analyze(sqlgen.MySQL, text)
		if p.Strategy != sqlgen.Refuse || p.Commits != commits {
			t.Errorf("%s\nis %v, commits: %v; expected refuse, %v", text, p.Strategy, p.Commits, commits)
		}
		if !sqlgen.MayChangeTransaction(sqlgen.MySQL, text) && commits {
			t.Errorf("%s\nmay change the transaction, and MayChangeTransaction says no", text)
		}
	}
	for _, text := range []string{`SELECT 1`, `UPDATE d SET v=1`, `BEGIN`, `SET @x=1`, `COMMIT`} {
		if sqlgen.Analyze(sqlgen.MySQL, text).Commits {
			t.Errorf("%s\ncommits implicitly", text)
		}
	}
}

func TestMySQLMayChangeTransaction(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT 1": false, " (SELECT 1)": false, "INSERT INTO d VALUES (1)": false, "update d set a=1": false, "REPLACE d VALUES (1)": false,
		"DELETE FROM d;": false, "SHOW TABLES": false, "VALUES (1)": false, "WITH x AS (SELECT 1) SELECT 1": false,
		"BEGIN": true, "XA START 'x'": true, "SET autocommit=0": true, "SET @x=1": true, "DO 1": true, "-- x\nSELECT 1": true, "--1": true, "#\nCOMMIT": true,
		"/* */ COMMIT": true, "SELECT 1; COMMIT": true, "CALL p()": true, "LOCK TABLES d READ": true, "UNLOCK TABLES": true, "TRUNCATE d": true, "HANDLER d OPEN": true, "USE x": true,
	} {
		if got := sqlgen.MayChangeTransaction(sqlgen.MySQL, text); got != want {
			t.Errorf("%q: %v, expected %v", text, got, want)
		}
	}
}

func TestMySQLKindsOfSeveralStatements(t *testing.T) {
	const (
		def, commit, read = sqlgen.KindDefinition, sqlgen.KindCommit, sqlgen.KindRead
		begin, update     = sqlgen.KindBegin, sqlgen.KindUpdate
	)
	for _, c := range []struct {
		text string
		want []sqlgen.Kind
	}{
		{`BEGIN; UPDATE d SET v=';' # ;
			WHERE a; COMMIT;`, []sqlgen.Kind{begin, update, commit}},
		{`CREATE PROCEDURE p() SELECT 1; COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE PROCEDURE p() COMMENT 'x' SQL SECURITY INVOKER CALL q(); COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE OR REPLACE DEFINER=u@'%' PROCEDURE s.p(IN x INT) BEGIN UPDATE d SET v=1; COMMIT; END; COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE DEFINER=CURRENT_USER() FUNCTION f() RETURNS VARCHAR(5) CHARACTER SET utf8 RETURN IF(1, 2, 3); COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE AGGREGATE FUNCTION f(x INT) RETURNS INT l: BEGIN DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END; LOOP FETCH GROUP NEXT ROW; END LOOP; END l; COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE FUNCTION f() RETURNS STRING SONAME 'x'; COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE TRIGGER t BEFORE UPDATE ON d FOR EACH ROW FOLLOWS u IF NEW.a THEN SET NEW.b=CASE WHEN 1 THEN CASE 2 WHEN 2 THEN 3 END ELSE 4 END; ELSEIF 1 THEN SET NEW.a=1; ELSE SET NEW.c=1; END IF; COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE TRIGGER t AFTER INSERT ON d FOR EACH ROW INSERT INTO e VALUES (IF(1,2,3)); COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN REPEAT SET x=1; UNTIL x END REPEAT; WHILE 1 DO SET y=2; END WHILE; CASE x WHEN 1 THEN SELECT 1; END CASE; FOR i IN 1..2 DO SELECT i; END FOR; END; COMMIT`, []sqlgen.Kind{def, commit}},
		{`ALTER EVENT e DO DELETE FROM d; COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE TABLE event (a INT); COMMIT`, []sqlgen.Kind{def, commit}},
		{`CREATE VIEW v AS SELECT begin FROM d; COMMIT`, []sqlgen.Kind{def, commit}},
		{`BEGIN NOT ATOMIC IF 1 THEN COMMIT; END IF; END; SELECT 1`, []sqlgen.Kind{sqlgen.KindOtherWrite, read}},
		{`SELECT IF(1, 2, 3); SELECT CASE WHEN 1 THEN 2 END; SELECT REPEAT('a', 2)`, []sqlgen.Kind{read, read, read}},
		{`BEGIN; COMMIT`, []sqlgen.Kind{begin, commit}},
	} {
		if got := sqlgen.Analyze(sqlgen.MySQL, c.text).Kinds(); !slices.Equal(got, c.want) {
			t.Errorf("%s\nholds %v, expected %v", c.text, got, c.want)
		}
	}
}

func TestMySQLNamesOfTables(t *testing.T) {
	for text, want := range map[string]string{
		"DELETE FROM Shop.`Jo``bs`":                                                 "Shop.Jo`bs",
		`INSERT INTO "Jobs" VALUES (1)`:                                             "Jobs",
		`UPDATE a JOIN b ON a.id=b.id SET a.v=b.v`:                                  "a",
		`UPDATE s.a AS x JOIN b ON x.id=b.id SET x.v=b.v, b.w=1`:                    "s.a, b",
		`UPDATE a, b SET v=1`:                                                       "a, b",
		`UPDATE a, b SET s.b.v=1`:                                                   "b",
		`UPDATE a x LEFT JOIN (b, c AS y) USING (id) SET y.v=1, x.v=1`:              "c, a",
		`UPDATE a JOIN (SELECT id FROM secret) q ON a.id=q.id SET v=1`:              "a",
		`UPDATE a NATURAL JOIN b STRAIGHT_JOIN c SET v=1`:                           "a, b, c",
		`UPDATE a USE INDEX (i), b SET b.v=1`:                                       "b",
		`UPDATE a, LATERAL (SELECT 1) q SET v=1`:                                    "a",
		`UPDATE a JOIN JSON_TABLE('[]', '$[*]' COLUMNS (x INT PATH '$')) j SET v=1`: "a",
		`DELETE x, b FROM a AS x JOIN s.b`:                                          "a, s.b",
		`DELETE FROM a, c.* USING a JOIN b JOIN s.c`:                                "a, s.c",
		`DELETE X FROM a AS x`:                                                      "a",
		`DELETE x FROM a AS x JOIN b AS X`:                                          "a, b",
		`SET STATEMENT a=1 FOR DELETE FROM d`:                                       "d",
		`TRUNCATE TABLE s.d`:                                                        "s.d",
		`CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS d ENGINE=InnoDB SELECT 1`:  "d",
		`CREATE TABLE d (a INT) AS WITH x AS (SELECT 1) SELECT * FROM x`:            "d",
		`CREATE TABLE d (SELECT 1)`:                                                 "d",
		`CREATE TABLE d LIKE e`:                                                     "not told",
		`DELETE HISTORY FROM d`:                                                     "not told",
		`EXPLAIN ANALYZE UPDATE d SET v=1`:                                          "d",
		`LOAD DATA INFILE 'x' INTO TABLE s.d`:                                       "s.d",
	} {
		if got := written(sqlgen.Analyze(sqlgen.MySQL, text)); got != want {
			t.Errorf("%s\nwrites %s, expected %s", text, got, want)
		}
	}
}

// TestMySQLCharacterSetsOfTheClient: only those may be set, by their plain names, in
// which the server reads strings as they are read here.
func TestMySQLCharacterSetsOfTheClient(t *testing.T) {
	for text, want := range map[string]sqlgen.Strategy{
		`SET NAMES utf8mb4`: sqlgen.Pass, `SET NAMES 'latin1' COLLATE latin1_bin`: sqlgen.Pass, `SET CHARACTER SET utf8`: sqlgen.Pass, `SET CHARSET 'utf8'`: sqlgen.Pass,
		`SET SESSION character_set_client = utf8mb4, @x = CONCAT('g', 'bk')`: sqlgen.Pass, `SET @names = CONCAT('a'), @character_set_client = 28`: sqlgen.Pass,
		`SET NAMES gbk`: sqlgen.Refuse, `SET NAMES "sjis"`: sqlgen.Refuse, `SET NAMES DEFAULT`: sqlgen.Refuse, `SET NAMES utf8 COLLATE`: sqlgen.Refuse, `SET CHAR SET big5`: sqlgen.Refuse,
		`SET @x = 1, CHARACTER SET cp932`: sqlgen.Refuse, `SET character_set_client = 28`: sqlgen.Refuse, `SET character_set_client = DEFAULT`: sqlgen.Refuse,
		`SET @@session.character_set_client = CONCAT('g', 'bk')`: sqlgen.Refuse, "SET SESSION `character_set_client` := @x": sqlgen.Refuse, `SET @@local.character_set_client = (SELECT 'gbk')`: sqlgen.Refuse,
		`SET @x = 'utf8', character_set_client = @x`: sqlgen.Refuse, `SET LOCAL character_set_client = gb18030`: sqlgen.Refuse,
	} {
		if p := sqlgen.Analyze(sqlgen.MySQL, text); p.Strategy != want {
			t.Errorf("%s\nis %v: %s, expected %v", text, p.Strategy, p.Reason, want)
		}
	}
}
