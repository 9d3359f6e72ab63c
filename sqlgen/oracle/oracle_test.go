package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

const (
	head1  = "WITH sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT WHERE NOT (SELECT %s)) "
	first1 = "WITH sqlfence_k AS MATERIALIZED (SELECT %s AS ok), sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT FROM sqlfence_k WHERE NOT sqlfence_k.ok) "
	cond   = "(SELECT sqlfence_k.ok FROM sqlfence_k)"
)

func passes(params, n int) string {
	var all []string
	for i := range n {
		p := params + 3*i
		all = append(all, fmt.Sprintf("sqlfence.pass($%d::pg_catalog.text, $%d::pg_catalog.int8, $%d::pg_catalog.int8)", p+1, p+2, p+3))
	}
	if n == 2 {
		return "CASE WHEN " + all[0] + " THEN " + all[1] + " ELSE false END"
	}
	return all[0]
}

// The oracle is only worth something if it sees a fault. Each case is a splice
// by hand, %H being the head form and %F the form that checks first.
func TestTheOracleAcceptsRightSplicesAndSeesWrongOnes(t *testing.T) {
	for _, c := range []struct {
		name     string
		kind     sqlgen.Kind
		strategy sqlgen.Strategy
		text     string
		spliced  string
		params   int
		want     string // a part of the finding; "" for none
	}{
		{"a right UPDATE", sqlgen.KindUpdate, sqlgen.Splice, "UPDATE t SET a = $1 WHERE b OR c", "%FUPDATE t SET a = $1 WHERE " + cond + " AND (b OR c)", 1, ""},
		{"a right UPDATE without WHERE", sqlgen.KindUpdate, sqlgen.Splice, "UPDATE t SET a = 1 -- x", "%FUPDATE t SET a = 1 WHERE " + cond + " -- x", 0, ""},
		{"a right UPDATE with an AND", sqlgen.KindUpdate, sqlgen.Splice, "UPDATE t SET a = 1 WHERE b AND c", "%FUPDATE t SET a = 1 WHERE " + cond + " AND (b AND c)", 0, ""},
		{"a right INSERT", sqlgen.KindInsert, sqlgen.Splice, "INSERT INTO t VALUES ($2)", "%HINSERT INTO t VALUES ($2)", 2, ""},
		{"a right SELECT with a write in its WITH list", sqlgen.KindWriteInWith, sqlgen.Splice, "WITH x AS (DELETE FROM t) SELECT 1", "%H, x AS (DELETE FROM t) SELECT 1", 0, ""},
		{"a right EXPLAIN ANALYZE", sqlgen.KindOtherWrite, sqlgen.Splice, "EXPLAIN ANALYZE INSERT INTO t VALUES (1)", "EXPLAIN ANALYZE %HINSERT INTO t VALUES (1)", 0, ""},
		{"WHERE CURRENT OF takes the head form", sqlgen.KindDelete, sqlgen.Splice, "DELETE FROM t WHERE CURRENT OF c", "%HDELETE FROM t WHERE CURRENT OF c", 0, ""},
		{"OR without parentheses", sqlgen.KindUpdate, sqlgen.Splice, "UPDATE t SET a = 1 WHERE b OR c", "%FUPDATE t SET a = 1 WHERE " + cond + " AND b OR c", 0, "the trees differ"},
		{"the condition last", sqlgen.KindDelete, sqlgen.Splice, "DELETE FROM t WHERE a", "%FDELETE FROM t WHERE (a) AND " + cond, 0, "the trees differ"},
		{"the condition in a sub-select", sqlgen.KindDelete, sqlgen.Splice, "DELETE FROM t WHERE a IN (SELECT b FROM c WHERE d)", "%FDELETE FROM t WHERE a IN (SELECT b FROM c WHERE " + cond + " AND (d))", 0, "the trees differ"},
		{"the condition swallowed by a comment", sqlgen.KindDelete, sqlgen.Splice, "DELETE FROM t -- all", "%FDELETE FROM t -- all WHERE " + cond, 0, "the trees differ"},
		{"the head form of an UPDATE", sqlgen.KindUpdate, sqlgen.Splice, "UPDATE t SET a = 1 WHERE b", "%HUPDATE t SET a = 1 WHERE b", 0, "checks first"},
		{"parameters that overlap", sqlgen.KindInsert, sqlgen.Splice, "INSERT INTO t VALUES ($4)", "%HINSERT INTO t VALUES ($4)", 1, "parameters"},
		{"a name that is taken", sqlgen.KindInsert, sqlgen.Splice, "INSERT INTO t TABLE sqlfence_guard", "%HINSERT INTO t TABLE sqlfence_guard", 0, "occurs"},
		{"a comment that is gone", sqlgen.KindInsert, sqlgen.Splice, "INSERT INTO t /* hint */ VALUES (1)", "%HINSERT INTO t VALUES (1)", 0, "tokens"},
		{"nothing injected", sqlgen.KindInsert, sqlgen.Splice, "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)", 0, "no WITH"},
		{"an unclosed splice", sqlgen.KindInsert, sqlgen.Splice, "INSERT INTO t VALUES (1)", "%HINSERT INTO t VALUES (1", 0, "does not parse"},
		{"a splice that makes a statement of none", sqlgen.KindDelete, sqlgen.Splice, "DELETE FROM t WHERE x) OR (1=1", "%FDELETE FROM t WHERE " + cond + " AND (x) OR (1=1)", 0, "is no statement"},
		{"a write that passes", sqlgen.KindRead, sqlgen.Pass, "WITH x AS (DELETE FROM t) SELECT 1", "", 0, "passed"},
		{"EXPLAIN ANALYZE that passes", sqlgen.KindRead, sqlgen.Pass, "EXPLAIN (ANALYZE) DELETE FROM t", "", 0, "passed"},
		{"EXPLAIN may pass", sqlgen.KindRead, sqlgen.Pass, "EXPLAIN (ANALYZE, ANALYZE off) DELETE FROM t", "", 0, ""},
		{"several statements that pass as one", sqlgen.KindRead, sqlgen.Pass, "SELECT 1; SELECT 2", "", 0, "2 statements"},
		{"a COMMIT taken for something else", sqlgen.KindSession, sqlgen.Pass, "END WORK", "", 0, "is called"},
		{"a read that is spliced", sqlgen.KindRead, sqlgen.Splice, "SELECT 1", "%HSELECT 1", 0, "writes nothing"},
		{"parameters miscounted", sqlgen.KindInsert, sqlgen.CheckFirst, "INSERT INTO t VALUES ($2)", "", 1, "2 parameters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := &sqlgen.Plan{Engine: sqlgen.PostgreSQL, Kind: c.kind, Strategy: c.strategy, Params: c.params}
			v := judge(c.text, plan, func(n int) (string, error) {
				spliced := strings.Replace(c.spliced, "%H", fmt.Sprintf(head1, passes(c.params, n)), 1)
				spliced = strings.Replace(spliced, "%F", fmt.Sprintf(first1, passes(c.params, n)), 1)
				return strings.Replace(spliced, ") , x AS", "), x AS", 1), nil
			})
			if c.want == "" {
				if len(v.Findings) > 0 {
					t.Fatalf("a right splice was called wrong: %s\n%s", v.Findings[0].What, v.Findings[0].Spliced)
				}
				return
			}
			for _, f := range v.Findings {
				if strings.Contains(f.What, c.want) {
					return
				}
			}
			t.Fatalf("no finding contains %q: %v", c.want, v.Findings)
		})
	}
}
