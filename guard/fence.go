package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// Querier runs statements. *sql.DB, *sql.Conn and *sql.Tx are Queriers, opened
// with one of the driver packages or not.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Fence asks and moves the high-water marks of one database by hand: for code
// that has no SQL write to guard, and for tokens issued elsewhere. It is safe
// for concurrent use if its Querier is.
//
// It takes tokens as arguments only, never from a context. Errors that are not
// about the fence are the driver's own.
type Fence struct {
	q      Querier
	engine sqlgen.Engine
}

// NewFence returns the Fence of the database behind q. With an engine that package
// sqlgen does not have, its methods return [ErrInvalidInput].
func NewFence(q Querier, engine sqlgen.Engine) *Fence { return &Fence{q, engine} }

// Check returns nil if all tokens are valid in this storage, and otherwise a
// *[FencedError] or *[UnregisteredError] for the first, by resource, that is
// not. Without tokens it returns [ErrInvalidInput].
//
// The answer holds for as long as q's transaction: on PostgreSQL, MySQL and
// MariaDB a takeover then waits until that ends, on SQLite the transaction
// cannot write any more once the mark has moved. With a *sql.DB or *sql.Conn
// it may be old when it arrives. A refusal is an answer, and ends no transaction of
// the caller's: roll it back. (PostgreSQL lets it do nothing else.)
func (f *Fence) Check(ctx context.Context, tokens ...Token) error {
	if err := known(f.engine); err != nil {
		return err
	}
	if len(tokens) == 0 {
		return fmt.Errorf("%w: Check without a token", ErrInvalidInput)
	}
	for _, t := range tokens {
		if err := t.Validate(); err != nil {
			return err
		}
	}
	tokens = slices.Clone(tokens)
	slices.SortStableFunc(tokens, compareResource)

	rows, err := f.q.QueryContext(Without(ctx), sqlgen.CheckSQL(f.engine, len(tokens)), f.parameters(tokens)...)
	if err != nil {
		return f.explain(err, tokens)
	}
	defer rows.Close()
	if f.engine != sqlgen.PostgreSQL {
		return f.judge(rows, tokens)
	}
	passed := false
	for rows.Next() {
		if err := rows.Scan(&passed); err != nil {
			return f.explain(err, tokens)
		}
	}
	if err := rows.Err(); err != nil {
		return f.explain(err, tokens)
	}
	if !passed {
		return &SetupError{Problem: "the check gave no answer", Remedy: "run guard.Migrate"}
	}
	return nil
}

// judge compares the tokens with the marks found.
func (f *Fence) judge(rows *sql.Rows, tokens []Token) error {
	type mark struct{ highWater, grant int64 }
	marks := make(map[string]mark, len(tokens))
	for rows.Next() {
		var resource string
		var m mark
		if err := rows.Scan(&resource, &m.highWater, &m.grant); err != nil {
			return f.explain(err, tokens)
		}
		marks[resource] = m
	}
	if err := rows.Err(); err != nil {
		return f.explain(err, tokens)
	}
	for _, t := range tokens {
		m := marks[t.Resource]
		if err := Judge(t, m.highWater, m.grant); err != nil {
			return err
		}
	}
	return nil
}

// HighWater returns the mark of a resource, 0 for one never seen. It does not
// wait for locks, and may be old when it arrives.
func (f *Fence) HighWater(ctx context.Context, resource string) (int64, error) {
	if err := known(f.engine); err != nil {
		return 0, err
	}
	if err := ValidateResource(resource); err != nil {
		return 0, err
	}
	var highWater, grant int64
	err := f.q.QueryRowContext(Without(ctx), sqlgen.MarkSQL(f.engine), sqlgen.ResourceParam(f.engine, resource)).Scan(&highWater, &grant)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, f.explain(err, nil)
	}
	return highWater, nil
}

// explain returns what err means for the fence, or err itself.
func (f *Fence) explain(err error, tokens []Token) error {
	if wrong := WrongEngine(err, f.engine); wrong != nil {
		return wrong
	}
	if ours := FromServer(err, tokens); ours != nil {
		return ours
	}
	if f.engine == sqlgen.SQLite && isMissingTable(err) {
		return &SetupError{Problem: "the tables of sqlfence are missing", Remedy: "run guard.Migrate (with :memory: each connection has a database of its own: use a file)", Err: err}
	}
	return err
}

// parameters returns the parameters of the tokens, in the order of
// [sqlgen.TokenParams]. Epoch and grant are int64, never another number:
// SQLite would compare a REAL with an INTEGER.
func (f *Fence) parameters(tokens []Token) []any {
	args := make([]any, 0, len(tokens)*sqlgen.TokenParams)
	for _, t := range tokens {
		args = append(args, sqlgen.ResourceParam(f.engine, t.Resource), t.Epoch, t.Grant)
	}
	return args
}

// isMissingTable tells SQLite's error about a table of ours that is not there.
// SQLite never translates it.
func isMissingTable(err error) bool {
	text := err.Error()
	return strings.Contains(text, "no such table") && strings.Contains(text, "sqlfence_")
}
