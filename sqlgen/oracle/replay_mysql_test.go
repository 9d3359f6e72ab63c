package main

import (
	"context"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// Each case is a splice by hand, %G being the predicate of the fence.
func TestTheMySQLReplayAcceptsRightSplicesAndSeesWrongOnes(t *testing.T) {
	var total tally
	r, err := openMySQLReplay(context.Background(), testserver.MySQL(t)[0].DSN, &total)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		name     string
		strategy sqlgen.Strategy
		text     string
		spliced  string
		at       int
		want     string // a part of the finding; "" for none
	}{
		{"a right UPDATE", sqlgen.Splice, "UPDATE t SET a = ? WHERE id = 1 OR id = 2", "UPDATE t SET a = ? WHERE %G AND (id = 1 OR id = 2)", 1, ""},
		{"a right INSERT", sqlgen.Splice, "INSERT INTO t (a, b) VALUES (1, ?)", "INSERT INTO t (a, b) VALUES ((CASE WHEN CASE WHEN EXISTS (SELECT 1 FROM DUAL WHERE NOT (%G)) THEN (SELECT 1 UNION ALL SELECT 2) ELSE 1 END THEN 1 END), ?)", 0, ""},
		{"a right INSERT of a query", sqlgen.Splice, "INSERT INTO t (a) SELECT id FROM u", "INSERT INTO t (a) SELECT id FROM u HAVING %G", 0, ""},
		{"an error on both sides", sqlgen.Splice, "INSERT INTO t (id) VALUES (1)", "INSERT INTO t (id) SELECT 1 FROM DUAL HAVING %G", 0, ""},
		{"OR without parentheses", sqlgen.Splice, "UPDATE t SET a = 1 WHERE id = 1 OR id = 2", "UPDATE t SET a = 1 WHERE %G AND id = 1 OR id = 2", 0, "stale"},
		{"a filter below an aggregate", sqlgen.Splice, "INSERT INTO t (a) SELECT COUNT(*) FROM u", "INSERT INTO t (a) SELECT COUNT(*) FROM u WHERE %G", 0, "stale"},
		{"one branch of a UNION", sqlgen.Splice, "INSERT INTO t (a) SELECT 1 UNION SELECT 2", "INSERT INTO t (a) SELECT 1 UNION SELECT 2 HAVING %G", 0, "stale"},
		{"a predicate in a comment", sqlgen.Splice, "DELETE FROM t -- all", "DELETE FROM t -- all WHERE %G", 0, "parameters"},
		{"the fence's arguments in the place of the user's", sqlgen.Splice, "UPDATE t SET a = ? WHERE id = 1", "UPDATE t SET a = ? WHERE %G AND (id = 1)", 0, "open"},
		{"another value", sqlgen.Splice, "INSERT INTO t (a) VALUES (1)", "INSERT INTO t (a) SELECT 2 FROM DUAL HAVING %G", 0, "tables"},
		{"the id of an upsert", sqlgen.Splice, "INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE a = 9", "INSERT INTO t (id) SELECT 1 FROM DUAL HAVING %G ON DUPLICATE KEY UPDATE a = 9", 0, "open"},
		{"a splice that the server does not take", sqlgen.Splice, "DELETE FROM t", "DELETE FROM t WHERE %G AND ()", 0, "not accepted"},
		{"a splice that makes a statement of none", sqlgen.Splice, "DELETE FROM t WHERE a) OR (1=1", "DELETE FROM t WHERE %G AND (a) OR (1=1)", 0, "not accepted"},
		{"a write that passes", sqlgen.Pass, "REPLACE INTO t (a) VALUES (1)", "", 0, "passed"},
		{"a write behind a reading keyword that passes", sqlgen.Pass, "SELECT writes()", "", 0, "passed"},
		{"a commit behind a check", sqlgen.CheckFirst, "TRUNCATE t", "", 0, "ends the transaction"},
		{"a right check", sqlgen.CheckFirst, "INSERT INTO t (a) VALUES (1), (2)", "", 0, ""},
		{"EXPLAIN may pass", sqlgen.Pass, "EXPLAIN DELETE FROM t", "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			total = tally{}
			if err := r.reset(); err != nil {
				t.Fatal(err)
			}
			if err := r.must("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b INT)", "CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO t (id) VALUES (1), (2), (3)", "INSERT INTO u VALUES (1)",
				"CREATE FUNCTION writes() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN DELETE FROM u; RETURN 1; END"); err != nil {
				t.Fatal(err)
			}
			plan := &sqlgen.Plan{Engine: sqlgen.MySQL, Kind: sqlgen.KindRead, Strategy: c.strategy, Params: strings.Count(c.text, "?"), At: c.at}
			err := r.judgePlan(c.text, "", plan, func(n int) (string, error) {
				guard := "EXISTS (SELECT 1 FROM " + r.fence + ".sqlfence_guard AS g WHERE g.resource = UNHEX(CONVERT(? USING ascii)) AND g.high_water = ? AND g.grant_id = ? LOCK IN SHARE MODE)"
				return strings.Replace(c.spliced, "%G", guard+strings.Repeat(" AND "+guard, n-1), 1), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var findings []string
			for what := range total.seen {
				findings = append(findings, what)
			}
			switch {
			case c.want == "" && len(findings) > 0:
				t.Fatalf("a right splice was called wrong: %q", findings)
			case !strings.Contains(strings.Join(findings, "\n"), c.want):
				t.Fatalf("no finding contains %q: %q", c.want, findings)
			}
		})
	}
}

func TestACommentWithNothingInItEndsWithItsLine(t *testing.T) {
	for _, text := range []string{"--\nUPDATE t SET a = 1", "-- HASH\n--\nUPDATE t\nSET a = 1", "--\t--\n# x\nDELETE FROM t"} {
		if !mysqlWrites.MatchString(text) || !mysqlProceeds.MatchString(text) {
			t.Errorf("%q does not look like a write", text)
		}
	}
}
