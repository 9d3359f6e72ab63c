package guardtest

import (
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/DATA-DOG/go-sqlmock"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// maxTokens is up to how many tokens a statement is looked for in its guarded forms.
const maxTokens = 8

// QueryMatcher returns a matcher for [sqlmock.QueryMatcherOption] that lets a test
// expect the program's own text where the real fence is spliced in: a statement
// matches if inner matches the text itself or one of its guarded forms. Inner is to
// compare whole texts, as [sqlmock.QueryMatcherEqual] does.
func QueryMatcher(engine sqlgen.Engine, inner sqlmock.QueryMatcher) sqlmock.QueryMatcher {
	return sqlmock.QueryMatcherFunc(func(expected, actual string) error {
		err := inner.Match(expected, actual)
		if err == nil {
			return nil
		}
		plan := sqlgen.Analyze(engine, expected)
		for n := 1; n <= maxTokens; n++ {
			guarded, guardErr := plan.Guarded(n)
			if guardErr != nil {
				break
			}
			if inner.Match(guarded, actual) == nil {
				return nil
			}
		}
		return err
	})
}

// ExpectSetUp expects what the first guarded statement of a database handle asks:
// whether the schema is there.
func ExpectSetUp(mock sqlmock.Sqlmock, engine sqlgen.Engine) {
	mock.ExpectQuery(sqlgen.VersionSQL(engine)).WillReturnRows(sqlmock.NewRows([]string{"version"}).AddRow(int64(sqlgen.SchemaVersion)))
}

// Args returns the arguments that reach the database with a guarded statement: the
// program's own, with those of the tokens where the guarded text has them. It panics
// for a text that takes no fence.
func Args(engine sqlgen.Engine, text string, args []driver.Value, tokens ...guard.Token) []driver.Value {
	plan := sqlgen.Analyze(engine, text)
	if plan.Strategy != sqlgen.Splice || plan.Params != len(args) {
		panic(fmt.Sprintf("guardtest: a fence is not spliced into %q with %d arguments: %s, %d parameters", text, len(args), plan.Strategy, plan.Params))
	}
	var own []driver.Value
	for _, t := range tokens {
		own = append(own, sqlgen.ResourceParam(engine, t.Resource), t.Epoch, t.Grant)
	}
	return slices.Insert(slices.Clone(args), plan.At, own...)
}

// FencedError returns the error with which PostgreSQL refuses a stale token, for
// WillReturnError.
func FencedError(t guard.Token, highWater int64) error {
	return &fenced{t, highWater}
}

type fenced struct {
	token     guard.Token
	highWater int64
}

func (e *fenced) Error() string {
	return fmt.Sprintf("ERROR: sqlfence: fenced: high_water=%d grant=%d epoch=%d resource=%s (SQLSTATE SF001)",
		e.highWater, e.token.Grant, e.token.Epoch, e.token.Resource)
}

// SQLState is how the driver recognises it.
func (e *fenced) SQLState() string { return "SF001" }
