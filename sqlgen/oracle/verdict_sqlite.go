package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// sqliteNumber finds SQLite's parameters. Inside of a string it would find too
// much, but in both texts alike.
var sqliteNumber = regexp.MustCompile(`\?(\d*)`)

// sqliteNamed finds named parameters, which take a number too.
var sqliteNamed = regexp.MustCompile(`[@:$#]\w`)

// compareSQLite compares the trees of a text for SQLite and of what it was
// spliced to, as far as PostgreSQL's grammar can read both: rows show a
// misplaced condition only if they happen to meet it. known is false where
// the grammar cannot read the text.
func compareSQLite(text, spliced string, n, params int) (known bool, err error) {
	if strings.Contains(text, "\ufeff") || sqliteNamed.MatchString(text) {
		return false, nil // white space here, a letter there; other numbers
	}
	original, seen := parseSQLite(text), parseSQLite(spliced)
	if len(original) != 1 || seen == nil {
		return false, nil
	}
	if len(seen) != 1 {
		return true, fmt.Errorf("the spliced text is %d statements", len(seen))
	}
	expected := proto.Clone(original[0]).(*pg.Node)
	_, where := clauses(expected)
	switch {
	case where != nil:
		guard, err := sqliteFence("SELECT 1 WHERE %s", n, params)
		if err != nil {
			return true, err
		}
		original := *where
		*where = guard.WhereClause
		if original != nil {
			// The condition of the fence may stand before the user's or behind
			// it: here no planner decides what runs first.
			*where = and(guard.WhereClause, original)
			if !proto.Equal(expected, seen[0]) {
				*where = original
				for _, g := range conjuncts(guard.WhereClause) {
					*where = and(*where, g)
				}
			}
		}
	case expected.GetInsertStmt().GetSelectStmt() != nil:
		insert := expected.GetInsertStmt()
		query := insert.SelectStmt.GetSelectStmt()
		if len(query.ValuesLists) > 0 {
			guard, err := sqliteFence("SELECT * FROM (VALUES (1)) WHERE %s", n, params)
			if err != nil {
				return true, err
			}
			guard.FromClause[0].GetRangeSubselect().Subquery = insert.SelectStmt
			insert.SelectStmt = &pg.Node{Node: &pg.Node_SelectStmt{SelectStmt: guard}}
			break
		}
		guard, err := sqliteFence("SELECT 1 LIMIT CASE WHEN %s THEN -1 ELSE 0 END", n, params)
		if err != nil {
			return true, err
		}
		limit := guard.LimitCount
		if query.LimitCount != nil {
			limit.GetCaseExpr().Args[0].GetCaseWhen().Result = query.LimitCount
		}
		query.LimitCount, query.LimitOption = limit, guard.LimitOption
	default:
		return false, nil
	}
	if !proto.Equal(expected, seen[0]) {
		return true, fmt.Errorf("the trees differ")
	}
	return true, nil
}

// parseSQLite parses a text for SQLite by PostgreSQL's grammar, its parameters
// numbered as SQLite numbers them; nil where the grammar refuses it.
func parseSQLite(text string) []*pg.Node {
	last := 0
	statements, err := parse(sqliteNumber.ReplaceAllStringFunc(text, func(p string) string {
		number, err := strconv.Atoi(p[1:])
		if err != nil {
			number = last + 1
		}
		last = max(last, number)
		return " $" + strconv.Itoa(number) // behind a word it would be part of that
	}))
	if err != nil {
		return nil
	}
	return statements
}

// sqliteFence parses a query that holds the predicate of n tokens.
func sqliteFence(query string, n, params int) (*pg.SelectStmt, error) {
	var all []string
	for i := range n {
		p := params + i*sqlgen.TokenParams
		all = append(all, fmt.Sprintf("EXISTS (SELECT 1 FROM main.sqlfence_fences AS sqlfence_f WHERE sqlfence_f.resource = $%d"+
			" AND sqlfence_f.high_water = $%d AND sqlfence_f.grant_id = $%d)", p+1, p+2, p+3))
	}
	statements, err := parse(fmt.Sprintf(query, strings.Join(all, " AND ")))
	if err != nil {
		return nil, fmt.Errorf("the oracle's own text does not parse: %w", err)
	}
	return statements[0].GetSelectStmt(), nil
}

// and is a AND b as the grammar builds it: an AND on the left takes one more.
func and(a, b *pg.Node) *pg.Node {
	args := append(append([]*pg.Node(nil), conjuncts(a)...), b)
	return &pg.Node{Node: &pg.Node_BoolExpr{BoolExpr: &pg.BoolExpr{Boolop: pg.BoolExprType_AND_EXPR, Args: args}}}
}

func conjuncts(n *pg.Node) []*pg.Node {
	if b := n.GetBoolExpr(); b != nil && b.Boolop == pg.BoolExprType_AND_EXPR {
		return b.Args
	}
	return []*pg.Node{n}
}
