package main

import (
	"strings"
	"testing"
)

// FuzzPostgreSQL lets Go's fuzzer choose the texts; the mutations of the
// command know more of SQL, this one knows more of sqlgen's branches.
func FuzzPostgreSQL(f *testing.F) {
	for i, frame := range framesPostgreSQL {
		f.Add(strings.Replace(frame, "%s", []string{
			"INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = excluded.b WHERE t.b OR t.c RETURNING *",
			"UPDATE ONLY s.t AS x SET a = $1, (b, c) = (SELECT 1, 2 WHERE true) FROM u WHERE x.a OR u.b RETURNING x.a -- end",
			"WITH x AS (SELECT $tag$ WHERE $tag$) DELETE FROM t USING u WHERE a = 'it''s' OR b RETURNING *",
			"MERGE INTO t USING u ON t.a = u.a WHEN MATCHED AND u.b OR u.c THEN UPDATE SET b = 1 WHEN NOT MATCHED THEN INSERT VALUES (u.a)",
			"WITH x AS (UPDATE t SET a = E'\\'' WHERE b) SELECT * FROM x WHERE U&\"d\\0061t\" = 1",
		}[i%5], 1))
	}
	for i, token := range oddPostgreSQL {
		f.Add([]string{"UPDATE t SET a = 1 WHERE b " + token, "UPDATE t SET a = " + token + " WHERE b", "INSERT INTO t VALUES (" + token + ")", token + " DELETE FROM t WHERE a OR b"}[i%4])
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, finding := range judgeText(text).Findings {
			t.Errorf("%s\ntext:    %q\nspliced: %q", finding.What, finding.Text, finding.Spliced)
		}
	})
}

// FuzzScanner holds sqlgen's lexer to PostgreSQL's own scanner: the same tokens
// divide the text into statements, number its parameters and pair its brackets.
func FuzzScanner(f *testing.F) {
	for i, token := range oddPostgreSQL {
		f.Add([]string{"SELECT 1; SELECT %s; SELECT $3", "UPDATE t SET a = %s WHERE b; DELETE FROM t", "/* %s */ INSERT INTO t VALUES ($1, '%s'); SELECT (%s)", "-- %s\nSELECT %s$2"}[i%4])
		f.Add(token + token)
	}
	for _, text := range []string{"E'\\'' ;'", "E'a'\n'\\''", "U&'\\0061'", "'a\\'", "$a$ ; $b$ ; $a$", "$1$2", "$1a", "/* /* */ ; */", "1e;", "0x1F_;", "a$1;", "$é$;$é$", "x'0';", "n';'", "--;\r;", "a.*;", "::;", "=>;", "<>-- ;\n", "@-/* ; */", "\"\";", "U&\"a\"\";"} {
		f.Add("SELECT " + text + " $4; SELECT 2")
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, complaint := range scannerComplaints(text) {
			t.Errorf("%s\ntext: %q", complaint, text)
		}
	})
}

// FuzzSQLite executes what it makes up on twin databases.
func FuzzSQLite(f *testing.F) {
	for i, frame := range framesSQLite {
		f.Add(strings.Replace(frame, "%s", []string{
			"INSERT INTO t (a, b) VALUES (?, :b), (?3, 'x') ON CONFLICT (id) DO UPDATE SET b = excluded.b WHERE t.b OR t.a RETURNING *",
			"UPDATE OR IGNORE t AS x SET a = ?, (b) = (SELECT 1 WHERE true) FROM t AS u WHERE x.a OR u.b RETURNING x.a",
			"DELETE FROM [t] WHERE a = 'it''s' OR `b` ORDER BY a LIMIT 1",
			"INSERT INTO t (a) SELECT a FROM t WHERE b OR a UNION SELECT 2 ORDER BY 1 LIMIT ? OFFSET 1",
			"REPLACE INTO main.t (id, a) VALUES (1, x'00') -- end",
		}[i%5], 1))
	}
	for i, token := range oddSQLite {
		f.Add([]string{"UPDATE t SET a = 1 WHERE b " + token, "UPDATE t SET a = " + token + " WHERE b", "INSERT INTO t (a) VALUES (" + token + ")", token + " DELETE FROM t WHERE a OR b"}[i%4])
	}
	var total tally
	twins := &sqliteTwins{total: &total}
	f.Cleanup(twins.close)
	f.Fuzz(func(t *testing.T, text string) {
		if err := twins.reset(); err != nil {
			t.Fatal(err)
		}
		for _, setup := range []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)", "INSERT INTO t (a, b) VALUES (1, 2), (3, 4)"} {
			twins.judge(setup, "")
		}
		if strings.Contains(strings.ToLower(text), "sqlfence") {
			return // it may have moved the fence itself
		}
		wrong := total.wrong + total.missed
		twins.judge(text, "fuzz")
		if total.wrong+total.missed > wrong {
			t.Errorf("%v\ntext: %q", total.seen, text)
		}
	})
}
