package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// finding is something that sqlgen got wrong on one text.
type finding struct {
	Missed  bool // a write passed unguarded; otherwise a wrong splice or classification
	What    string
	Text    string
	Spliced string
}

// verdict is what the oracle says about one text.
type verdict struct {
	Parsed      bool // PostgreSQL's grammar accepts the text
	Write       bool // it writes when it is executed
	SingleWrite bool // it is exactly one INSERT, UPDATE, DELETE or MERGE, perhaps inside WITH
	Plan        *sqlgen.Plan
	Findings    []finding
}

// splicer is the part of a Plan that the oracle tests; tests of the oracle
// itself plant faulty ones.
type splicer func(n int) (string, error)

// judgeText analyses a text and judges the plan. A panic is a finding too.
func judgeText(text string) (v verdict) {
	defer func() {
		if p := recover(); p != nil {
			v.Plan = &sqlgen.Plan{}
			v.Findings = append(v.Findings, finding{What: fmt.Sprintf("panic: %v", p), Text: text})
		}
	}()
	// The grammar reads plain strings like a session with standard strings.
	plan := sqlgen.Analyze(sqlgen.PostgreSQL, text, sqlgen.StandardStrings(), sqlgen.SafeEncoding())
	return judge(text, plan, plan.Guarded)
}

// judge holds a plan against the tree that PostgreSQL's own grammar makes of
// the text and of what the splicer makes of it.
func judge(text string, plan *sqlgen.Plan, splice splicer) verdict {
	v := verdict{Plan: plan}
	wrong := func(spliced, format string, args ...any) {
		v.Findings = append(v.Findings, finding{What: fmt.Sprintf(format, args...), Text: text, Spliced: spliced})
	}
	statements, err := parse(text)
	if errors.Is(err, errNotText) {
		return v
	}
	if err != nil {
		// Never may the splice make a statement out of a text that is none:
		// `WHERE x) OR (1=1` is such a text.
		if plan.Strategy == sqlgen.Splice {
			if spliced, err := splice(1); err == nil {
				if _, err := parse(spliced); err == nil {
					wrong(spliced, "the text is no statement, the spliced text is one")
				}
			}
		}
		return v
	}
	v.Parsed = true
	what := ""
	for _, s := range statements {
		if w := writeOf(s); w != "" && what == "" {
			what = w
		}
	}
	v.Write = what != ""
	v.SingleWrite = len(statements) == 1 && isSingleWrite(statements[0])

	if !sqlgen.MayChangeTransaction(sqlgen.PostgreSQL, text) && slices.ContainsFunc(statements, changesTransaction) {
		wrong("", "MayChangeTransaction does not see that it may")
	}
	if plan.Strategy == sqlgen.Pass && v.Write {
		v.Findings = append(v.Findings, finding{Missed: true, What: what + " passed as " + plan.Kind.String(), Text: text})
	}
	for _, complaint := range append(misclassified(statements, plan), wrongTables(statements, plan)...) {
		wrong("", "%s", complaint)
	}
	if plan.Strategy == sqlgen.CheckFirst || plan.Strategy == sqlgen.CheckInTransaction {
		for _, complaint := range uncheckable(statements, plan) {
			v.Findings = append(v.Findings, finding{Missed: true, What: complaint, Text: text})
		}
	}
	if plan.Strategy != sqlgen.Splice {
		return v
	}
	if !v.Write {
		wrong("", "spliced, but it writes nothing")
	}
	if len(statements) != 1 {
		wrong("", "spliced, but it is %d statements", len(statements))
		return v
	}
	for n := 1; n <= 2; n++ {
		spliced, err := splice(n)
		if err != nil {
			wrong("", "not spliced for %d tokens: %v", n, err)
			continue
		}
		if err := compare(text, statements[0], spliced, n); err != nil {
			wrong(spliced, "%d tokens: %v", n, err)
		}
	}
	return v
}

// uncheckable lists why a text must not be executed behind a check: it could end
// the transaction in which the check holds the fence, and write on.
func uncheckable(statements []*pg.Node, plan *sqlgen.Plan) (complaints []string) {
	if len(statements) > 1 {
		complaints = append(complaints, fmt.Sprintf("%d statements behind one check", len(statements)))
	}
	for _, s := range statements {
		if changesTransaction(s) {
			complaints = append(complaints, statementName(s)+" behind a check")
		}
		if (s.GetCallStmt() != nil || s.GetDoStmt() != nil) && plan.Strategy != sqlgen.CheckInTransaction {
			complaints = append(complaints, statementName(s)+" outside of the program's own transaction")
		}
	}
	return complaints
}

func changesTransaction(n *pg.Node) bool { return n.GetTransactionStmt() != nil }

// misclassified lists what the plan says otherwise than the tree of the kind and
// of the number of parameters.
func misclassified(statements []*pg.Node, plan *sqlgen.Plan) (complaints []string) {
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	if len(statements) == 0 {
		if plan.Kind != sqlgen.KindEmpty && plan.Kind != sqlgen.KindUnknown {
			complain("an empty text is called %s", plan.Kind)
		}
		return complaints
	}
	if len(statements) > 1 {
		// What is refused may be called what it likes.
		if plan.Kind != sqlgen.KindSeveral && plan.Strategy != sqlgen.Refuse {
			complain("%d statements are called %s", len(statements), plan.Kind)
		}
		return complaints
	}
	s := statements[0]
	switch want := kindOf(s); {
	case plan.Strategy == sqlgen.Refuse && (plan.Kind == sqlgen.KindUnknown || plan.Kind == sqlgen.KindSeveral):
	case want == sqlgen.KindUnknown:
		switch plan.Kind {
		case sqlgen.KindBegin, sqlgen.KindCommit, sqlgen.KindRollback, sqlgen.KindSavepoint, sqlgen.KindRelease,
			sqlgen.KindRollbackTo, sqlgen.KindPrepareTx, sqlgen.KindEmpty, sqlgen.KindSeveral, sqlgen.KindUnknown:
			complain("%s is called %s", statementName(s), plan.Kind)
		}
	case want != plan.Kind:
		complain("%s is called %s", statementName(s), plan.Kind)
	}
	if plan.Strategy == sqlgen.Refuse {
		return complaints
	}
	if params := highestParam(s.ProtoReflect()); params != plan.Params && isSingleWrite(s) {
		complain("it takes %d parameters, not %d", params, plan.Params)
	}
	return complaints
}

// wrongTables lists what the plan says otherwise than the trees of the tables
// written. That it does not know is always allowed.
func wrongTables(statements []*pg.Node, plan *sqlgen.Plan) (complaints []string) {
	if plan.Tables == nil {
		return nil
	}
	missing := map[string]bool{}
	for _, s := range statements {
		tables, known := writtenTables(s)
		if !known {
			return append(complaints, "it may write tables that it does not name")
		}
		for name := range tables {
			missing[name] = true
		}
	}
	for _, t := range plan.Tables {
		name := strconv.Quote(t.Schema) + "." + strconv.Quote(t.Name)
		// To name too many is over-cautious: EXPLAIN (ANALYZE false) is.
		if _, ok := missing[name]; !ok && plan.Strategy == sqlgen.Splice {
			complaints = append(complaints, "it does not write "+name)
		}
		missing[name] = false
	}
	for name, m := range missing {
		if m {
			complaints = append(complaints, "it writes "+name)
		}
	}
	return complaints
}

// kindOf is the kind of a statement; KindUnknown where several kinds will do.
func kindOf(n *pg.Node) sqlgen.Kind {
	switch s := n.Node.(type) {
	case *pg.Node_InsertStmt:
		return sqlgen.KindInsert
	case *pg.Node_UpdateStmt:
		return sqlgen.KindUpdate
	case *pg.Node_DeleteStmt:
		return sqlgen.KindDelete
	case *pg.Node_MergeStmt:
		return sqlgen.KindMerge
	case *pg.Node_SelectStmt:
		switch nestedWrite(n.ProtoReflect()) {
		case "":
			return sqlgen.KindRead
		case "SELECT INTO":
			return sqlgen.KindUnknown
		}
		return sqlgen.KindWriteInWith
	case *pg.Node_TransactionStmt:
		switch s.TransactionStmt.Kind {
		case pg.TransactionStmtKind_TRANS_STMT_BEGIN, pg.TransactionStmtKind_TRANS_STMT_START:
			return sqlgen.KindBegin
		case pg.TransactionStmtKind_TRANS_STMT_COMMIT:
			return sqlgen.KindCommit
		case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK:
			return sqlgen.KindRollback
		case pg.TransactionStmtKind_TRANS_STMT_SAVEPOINT:
			return sqlgen.KindSavepoint
		case pg.TransactionStmtKind_TRANS_STMT_RELEASE:
			return sqlgen.KindRelease
		case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO:
			return sqlgen.KindRollbackTo
		}
		return sqlgen.KindPrepareTx
	}
	return sqlgen.KindUnknown
}

// compare holds a spliced text against the tree of the original with the
// expected edit applied.
func compare(text string, original *pg.Node, spliced string, n int) error {
	statements, err := parse(spliced)
	if err != nil {
		return fmt.Errorf("the spliced text does not parse: %w", err)
	}
	if len(statements) != 1 {
		return fmt.Errorf("the spliced text is %d statements", len(statements))
	}
	seen := guardedStatement(statements[0])
	expected := proto.Clone(original).(*pg.Node)
	target := guardedStatement(expected)
	with, where := clauses(target)
	if with == nil {
		return fmt.Errorf("a %s was spliced", statementName(target))
	}
	seenWith, _ := clauses(seen)
	if seenWith == nil || *seenWith == nil {
		return fmt.Errorf("the fence is in no WITH list")
	}
	own := 0
	if *with != nil {
		own = len((*with).Ctes)
	}
	added := len((*seenWith).Ctes) - own
	if added != 1 && added != 2 {
		return fmt.Errorf("%d CTEs were added", added)
	}
	var fresh []string
	taken := map[string]bool{}
	names(original.ProtoReflect(), taken)
	for _, cte := range (*seenWith).Ctes[:added] {
		name := cte.GetCommonTableExpr().GetCtename()
		if taken[name] {
			return fmt.Errorf("the CTE name %q occurs in the statement", name)
		}
		fresh = append(fresh, name)
	}
	if added == 1 && where != nil && (*where).GetCurrentOfExpr() == nil {
		return fmt.Errorf("the planner may fold the WHERE clause away before the check: it needs the form that checks first")
	}
	if added == 2 && where == nil {
		return fmt.Errorf("the form that checks first does not fit a %s", statementName(target))
	}
	ctes, condition, err := fence(fresh, n, highestParam(original.ProtoReflect()))
	if err != nil {
		return err
	}
	if *with == nil {
		*with = &pg.WithClause{}
	}
	(*with).Ctes = append(ctes, (*with).Ctes...)
	if condition != nil {
		if *where == nil {
			*where = condition
		} else {
			*where = &pg.Node{Node: &pg.Node_BoolExpr{BoolExpr: &pg.BoolExpr{
				Boolop: pg.BoolExprType_AND_EXPR, Args: []*pg.Node{condition, *where}}}}
		}
	}
	if !proto.Equal(expected, statements[0]) {
		return fmt.Errorf("the trees differ")
	}
	return sameTokens(text, spliced, added+(added-1))
}

// guardedStatement is the statement that takes the fence: EXPLAIN's own
// statement, otherwise the statement itself.
func guardedStatement(n *pg.Node) *pg.Node {
	if e := n.GetExplainStmt(); e != nil {
		return guardedStatement(e.Query)
	}
	return n
}

// clauses returns where a statement keeps its WITH list and, for UPDATE and
// DELETE, its condition.
func clauses(n *pg.Node) (with **pg.WithClause, where **pg.Node) {
	switch s := n.Node.(type) {
	case *pg.Node_InsertStmt:
		return &s.InsertStmt.WithClause, nil
	case *pg.Node_UpdateStmt:
		return &s.UpdateStmt.WithClause, &s.UpdateStmt.WhereClause
	case *pg.Node_DeleteStmt:
		return &s.DeleteStmt.WithClause, &s.DeleteStmt.WhereClause
	case *pg.Node_MergeStmt:
		return &s.MergeStmt.WithClause, nil
	case *pg.Node_SelectStmt:
		return &s.SelectStmt.WithClause, nil
	}
	return nil, nil
}

// fence is the oracle's own idea of the injected text: DESIGN §3, written down
// a second time on purpose. With one name it is the form for the head, with two
// the form that checks first, with the condition that goes with it.
func fence(name []string, n, params int) (ctes []*pg.Node, condition *pg.Node, err error) {
	var passes []string
	for i := range n {
		p := params + i*sqlgen.TokenParams
		passes = append(passes, fmt.Sprintf("sqlfence.pass($%d::pg_catalog.text, $%d::pg_catalog.int8, $%d::pg_catalog.int8)", p+1, p+2, p+3))
	}
	// CASE keeps the order of the tokens; AND need not.
	check := passes[n-1]
	for i := n - 2; i >= 0; i-- {
		check = "CASE WHEN " + passes[i] + " THEN " + check + " ELSE false END"
	}
	var text string
	if len(name) == 1 {
		text = fmt.Sprintf("WITH %s AS (INSERT INTO sqlfence.nothing SELECT WHERE NOT (SELECT %s)) SELECT 1", name[0], check)
	} else {
		text = fmt.Sprintf("WITH %[1]s AS MATERIALIZED (SELECT %[3]s AS ok), "+
			"%[2]s AS (INSERT INTO sqlfence.nothing SELECT FROM %[1]s WHERE NOT %[1]s.ok) SELECT 1 WHERE (SELECT %[1]s.ok FROM %[1]s)", name[0], name[1], check)
	}
	statements, err := parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("the oracle's own text does not parse: %w", err)
	}
	s := statements[0].GetSelectStmt()
	return s.WithClause.Ctes, s.WhereClause, nil
}
