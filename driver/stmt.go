package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// What every wrapped statement implements. ColumnConverter is there if the bare
// statement has it; the others answer what database/sql would have done in their
// absence.
var (
	_ driver.Stmt              = (*stmt)(nil)
	_ driver.StmtExecContext   = (*stmt)(nil)
	_ driver.StmtQueryContext  = (*stmt)(nil)
	_ driver.NamedValueChecker = (*stmt)(nil)
	_ driver.ColumnConverter   = converterStmt{}

	_ driver.Stmt             = (*prepared)(nil)
	_ driver.StmtExecContext  = (*prepared)(nil)
	_ driver.StmtQueryContext = (*prepared)(nil)
)

// stmt is the outermost layer of a statement: stmt ▸ sqlmw ▸ prepared ▸ raw.
type stmt struct {
	mw       mwStmt
	prepared *prepared
}

// mwStmt is what sqlmw's statement implements.
type mwStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func newStmt(mw driver.Stmt, p *prepared) driver.Stmt {
	s := &stmt{mw: mw.(mwStmt), prepared: p}
	if c, ok := p.raw.(driver.ColumnConverter); ok {
		return converterStmt{s, c}
	}
	return s
}

// converterStmt is the statement of a driver that converts by column. A
// converter on a statement whose driver has none would switch off database/sql's
// own conversion where NumInput is unknown (CASES D16).
type converterStmt struct {
	*stmt
	converter driver.ColumnConverter
}

// ColumnConverter implements [driver.ColumnConverter].
func (s converterStmt) ColumnConverter(i int) driver.ValueConverter {
	return s.converter.ColumnConverter(i)
}

// Close implements [driver.Stmt].
func (s *stmt) Close() error { return s.mw.Close() }

// NumInput implements [driver.Stmt]. It is the number of the caller's arguments.
func (s *stmt) NumInput() int { return s.prepared.NumInput() }

// Exec implements [driver.Stmt]. Database/sql calls ExecContext.
func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

// Query implements [driver.Stmt]. Database/sql calls QueryContext.
func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

// ExecContext implements [driver.StmtExecContext].
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	p := s.prepared
	if p.session.unconcerned(ctx, p.text) {
		p.session.look(p.text, args)
		return execStmt(ctx, p.raw, args)
	}
	return s.mw.ExecContext(ctx, args)
}

// QueryContext implements [driver.StmtQueryContext].
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	p := s.prepared
	if p.session.unconcerned(ctx, p.text) {
		p.session.look(p.text, args)
		return queryStmt(ctx, p.raw, args)
	}
	if _, err := s.mw.QueryContext(ctx, args); err != nil {
		return nil, err
	}
	return p.session.takeRows(), nil
}

// CheckNamedValue implements [driver.NamedValueChecker]. ErrSkip makes
// database/sql go on as if the method were absent.
func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if c, ok := s.prepared.raw.(driver.NamedValueChecker); ok {
		return c.CheckNamedValue(v)
	}
	if c, ok := s.prepared.session.raw.(driver.NamedValueChecker); ok {
		return c.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// prepared is a statement prepared on the raw connection, and, from the first
// time that it is executed under tokens, the same with the fence spliced in. It
// is the context of each execution that decides which of them is executed (SPEC
// G9).
type prepared struct {
	session *session
	text    string
	raw     driver.Stmt
	recoded bool          // MySQL: raw was prepared when the client's character set may have been another one
	guarded []driver.Stmt // by the number of tokens, less one; nil until needed
}

// Close closes all variants of the statement.
func (p *prepared) Close() error {
	err := p.raw.Close()
	for _, g := range p.guarded {
		if g != nil {
			err = errors.Join(err, g.Close())
		}
	}
	p.guarded = nil
	return err
}

// NumInput implements [driver.Stmt].
func (p *prepared) NumInput() int { return p.raw.NumInput() }

// Exec implements [driver.Stmt].
func (p *prepared) Exec(args []driver.Value) (driver.Result, error) {
	return p.ExecContext(context.Background(), named(args))
}

// Query implements [driver.Stmt].
func (p *prepared) Query(args []driver.Value) (driver.Rows, error) {
	return p.QueryContext(context.Background(), named(args))
}

// ExecContext implements [driver.StmtExecContext].
func (p *prepared) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return p.session.exec(ctx, p, p.text, args)
}

// QueryContext implements [driver.StmtQueryContext].
func (p *prepared) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	var err error
	p.session.rows, err = p.session.query(ctx, p, p.text, args)
	return p.session.rows, err
}

func (p *prepared) exec(ctx context.Context, d *decision, tokens int, args []driver.NamedValue) (driver.Result, error) {
	raw, err := p.variant(ctx, d, tokens)
	if err != nil {
		return nil, err
	}
	return execStmt(ctx, raw, args)
}

func (p *prepared) query(ctx context.Context, d *decision, tokens int, args []driver.NamedValue) (driver.Rows, error) {
	raw, err := p.variant(ctx, d, tokens)
	if err != nil {
		return nil, err
	}
	return queryStmt(ctx, raw, args)
}

// variant returns the statement for this number of tokens, preparing it first if
// there is none. A token is never part of the text, so that one serves all.
func (p *prepared) variant(ctx context.Context, d *decision, tokens int) (driver.Stmt, error) {
	if d.text != p.text {
		return nil, &guard.UnsupportedError{Kind: "a prepared statement with a query rewriter",
			Reason: "its text is prepared and cannot change", Advice: "pass plain arguments"}
	}
	if tokens == 0 {
		// A statement is executed as it was read when it was prepared, and the plan
		// is that of a reading in the present character set.
		if p.recoded && d.plan != nil {
			if err := p.again(ctx); err != nil {
				return nil, err
			}
		}
		return p.raw, nil
	}
	if tokens <= len(p.guarded) && p.guarded[tokens-1] != nil {
		return p.guarded[tokens-1], nil
	}
	s, err := p.session.prepare(ctx, d.fenced)
	if err != nil {
		return nil, err
	}
	if n, bare := s.NumInput(), p.raw.NumInput(); n >= 0 && bare >= 0 && n != bare+sqlgen.TokenParams*tokens {
		_ = s.Close() // the error below is the cause
		return nil, fmt.Errorf("sqlfence: the guarded statement takes %d arguments, and the bare one %d", n, bare)
	}
	for len(p.guarded) < tokens {
		p.guarded = append(p.guarded, nil)
	}
	p.guarded[tokens-1] = s
	return s, nil
}

// again prepares the statement anew.
func (p *prepared) again(ctx context.Context) error {
	raw, err := p.session.prepare(ctx, p.text)
	if err != nil {
		return err
	}
	_ = p.raw.Close() // nobody executes it any more
	p.raw, p.recoded = raw, false
	return nil
}

func named(values []driver.Value) []driver.NamedValue {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return args
}
