package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// Each case is a splice by hand, %G being the predicate of the fence.
func TestTheSQLiteReplayAcceptsRightSplicesAndSeesWrongOnes(t *testing.T) {
	for _, c := range []struct {
		name     string
		strategy sqlgen.Strategy
		text     string
		spliced  string
		params   int
		want     string // a part of the finding; "" for none
	}{
		{"a right UPDATE", sqlgen.Splice, "UPDATE t SET a = ? WHERE id = 1 OR id = 2", "UPDATE t SET a = ?1 WHERE %G AND (id = 1 OR id = 2)", 1, ""},
		{"a right UPDATE with the condition last", sqlgen.Splice, "UPDATE t SET a = ? WHERE id = 1 AND a = 2", "UPDATE t SET a = ?1 WHERE (id = 1 AND a = 2) AND %G", 1, ""},
		{"a right INSERT", sqlgen.Splice, "INSERT INTO t (a, b) VALUES (1, ?), (2, 'x')", "INSERT INTO t (a, b) SELECT * FROM (VALUES (1, ?1), (2, 'x')) WHERE %G", 1, ""},
		{"a right INSERT of a query", sqlgen.Splice, "INSERT INTO t (a) SELECT id FROM u", "INSERT INTO t (a) SELECT id FROM u LIMIT CASE WHEN %G THEN -1 ELSE 0 END", 0, ""},
		{"a right upsert", sqlgen.Splice, "INSERT INTO t (id, a) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING a", "INSERT INTO t (id, a) SELECT * FROM (VALUES (1, 2)) WHERE %G ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING a", 0, ""},
		{"OR without parentheses", sqlgen.Splice, "UPDATE t SET a = 1 WHERE id = 1 OR id = 2", "UPDATE t SET a = 1 WHERE %G AND id = 1 OR id = 2", 0, "stale"},
		{"a filter below an aggregate", sqlgen.Splice, "INSERT INTO t (a) SELECT count(*) FROM u", "INSERT INTO t (a) SELECT count(*) FROM u WHERE %G", 0, "stale"},
		{"one branch of a UNION", sqlgen.Splice, "INSERT INTO t (a) SELECT 1 UNION SELECT 2", "INSERT INTO t (a) SELECT 1 UNION SELECT 2 WHERE %G", 0, "stale"},
		{"a predicate in a comment", sqlgen.Splice, "DELETE FROM t -- all", "DELETE FROM t -- all WHERE %G", 0, "parameters"},
		{"OR without parentheses, where no row shows it", sqlgen.Splice, "UPDATE t SET a = 1 WHERE id = 7 OR id = 8", "UPDATE t SET a = 1 WHERE %G AND id = 7 OR id = 8", 0, "trees differ"},
		{"a parameter renumbered", sqlgen.Splice, "UPDATE t SET a = ? WHERE id = 1", "UPDATE t SET a = ?3 WHERE %G AND (id = 1)", 1, "tables differ"},
		{"another value", sqlgen.Splice, "INSERT INTO t (a) VALUES (1)", "INSERT INTO t (a) SELECT * FROM (VALUES (2)) WHERE %G", 0, "tables differ"},
		{"a splice that does not compile", sqlgen.Splice, "DELETE FROM t", "DELETE FROM t WHERE %G AND ()", 0, "does not compile"},
		{"a splice that makes a statement of none", sqlgen.Splice, "DELETE FROM t WHERE a) OR (1=1", "DELETE FROM t WHERE %G AND (a) OR (1=1)", 0, "does not compile"},
		{"a write that passes", sqlgen.Pass, "REPLACE INTO t (a) VALUES (1)", "", 0, "passed"},
		{"several statements that pass", sqlgen.Pass, "SELECT 1; DELETE FROM t", "", 0, "passed"},
		{"EXPLAIN may pass", sqlgen.Pass, "EXPLAIN DELETE FROM t", "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var total tally
			twins := &sqliteTwins{total: &total}
			defer twins.close()
			if err := twins.reset(); err != nil {
				t.Fatal(err)
			}
			for _, s := range twins.all() {
				for _, sql := range []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)", "CREATE TABLE u (id INTEGER PRIMARY KEY)", "INSERT INTO t (id) VALUES (1), (2), (3)", "INSERT INTO u DEFAULT VALUES"} {
					if e := s.run(sql, nothing); e.Error != "" {
						t.Fatal(e)
					}
				}
			}
			plan := &sqlgen.Plan{Engine: sqlgen.SQLite, Kind: sqlgen.KindRead, Strategy: c.strategy, Params: c.params}
			twins.judgePlan(c.text, "", plan, func(n int) (string, error) {
				var all []string
				for i := range n {
					p := c.params + 3*i
					all = append(all, fmt.Sprintf("EXISTS (SELECT 1 FROM main.sqlfence_fences AS sqlfence_f WHERE sqlfence_f.resource = ?%d AND sqlfence_f.high_water = ?%d AND sqlfence_f.grant_id = ?%d)", p+1, p+2, p+3))
				}
				return strings.Replace(c.spliced, "%G", strings.Join(all, " AND "), 1), nil
			})
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
