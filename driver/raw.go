package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"reflect"
	"time"
)

// execOn executes the text on a raw connection as database/sql would; ErrSkip
// if it can only be prepared.
func execOn(ctx context.Context, raw driver.Conn, text string, args []driver.NamedValue) (driver.Result, error) {
	if execer, ok := raw.(driver.ExecerContext); ok {
		return execer.ExecContext(ctx, text, args)
	}
	execer, ok := raw.(driver.Execer)
	if !ok {
		return nil, driver.ErrSkip
	}
	values, err := unnamed(args)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return execer.Exec(text, values)
}

// queryOn is [execOn] for rows.
func queryOn(ctx context.Context, raw driver.Conn, text string, args []driver.NamedValue) (driver.Rows, error) {
	if queryer, ok := raw.(driver.QueryerContext); ok {
		return queryer.QueryContext(ctx, text, args)
	}
	queryer, ok := raw.(driver.Queryer)
	if !ok {
		return nil, driver.ErrSkip
	}
	values, err := unnamed(args)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return queryer.Query(text, values)
}

// execStmt executes a raw statement as database/sql would.
func execStmt(ctx context.Context, raw driver.Stmt, args []driver.NamedValue) (driver.Result, error) {
	if s, ok := raw.(driver.StmtExecContext); ok {
		return s.ExecContext(ctx, args)
	}
	values, err := unnamed(args)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return raw.Exec(values) //nolint:staticcheck // drivers that have no other are to work
}

// queryStmt is [execStmt] for rows.
func queryStmt(ctx context.Context, raw driver.Stmt, args []driver.NamedValue) (driver.Rows, error) {
	if s, ok := raw.(driver.StmtQueryContext); ok {
		return s.QueryContext(ctx, args)
	}
	values, err := unnamed(args)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return raw.Query(values) //nolint:staticcheck // drivers that have no other are to work
}

// prepare prepares the text on the raw connection as database/sql would.
func (s *session) prepare(ctx context.Context, text string) (driver.Stmt, error) {
	if p, ok := s.raw.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, text)
	}
	stmt, err := s.raw.Prepare(text)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		_ = stmt.Close() // the context's end is what the caller is told
		return nil, err
	}
	return stmt, nil
}

// run executes a statement of our own.
func (s *session) run(ctx context.Context, text string, args []driver.NamedValue) error {
	args = s.unprepared(args)
	_, err := execOn(ctx, s.raw, text, args)
	if !errors.Is(err, driver.ErrSkip) {
		return err
	}
	stmt, err := s.prepare(ctx, text)
	if err != nil {
		return err
	}
	_, err = execStmt(ctx, stmt, args)
	return errors.Join(err, stmt.Close())
}

// read executes a query of our own, and calls row for each row; the values are
// valid until row returns.
func (s *session) read(ctx context.Context, text string, args []driver.NamedValue, row func([]driver.Value) error) (err error) {
	args = s.unprepared(args)
	r, err := queryOn(ctx, s.raw, text, args)
	if errors.Is(err, driver.ErrSkip) {
		stmt, err := s.prepare(ctx, text)
		if err != nil {
			return err
		}
		defer stmt.Close()
		if r, err = queryStmt(ctx, stmt, args); err != nil {
			return err
		}
		return eachRow(r, row)
	}
	if err != nil {
		return err
	}
	return eachRow(r, row)
}

// unprepared returns the arguments of a statement of our own, told not to be prepared
// for later: behind a transaction pooler the next one may be executed elsewhere, and
// a program that prepares nothing itself would fail by our statements alone.
func (s *session) unprepared(args []driver.NamedValue) []driver.NamedValue {
	if len(args) == 0 || s.native == nil {
		return args
	}
	option, ok := s.native.Unprepared()
	if !ok {
		return args
	}
	with := append(make([]driver.NamedValue, 0, len(args)+1), driver.NamedValue{Ordinal: 1, Value: option})
	for _, a := range args {
		a.Ordinal++
		with = append(with, a)
	}
	return with
}

// unnamed returns the values alone, for drivers that know no named ones.
func unnamed(args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		values[i] = a.Value
	}
	return values, nil
}

// rewrites reports whether a value is one of pgx's query rewriters, for
// connections of which nothing is known but that the engine is PostgreSQL: pgx
// would let it replace the arguments, those of the fence included.
func rewrites(v any) bool {
	switch v.(type) {
	case nil, int64, float64, bool, []byte, string, time.Time:
		return false
	}
	_, ok := reflect.TypeOf(v).MethodByName("RewriteQuery")
	return ok
}

// onceOnly keeps database/sql from executing a statement again that has been
// executed once (CASES D18).
func onceOnly(err error) error {
	if errors.Is(err, driver.ErrBadConn) {
		return &lostError{err}
	}
	return err
}

// lostError is ErrBadConn after the statement was sent. It does not unwrap.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	return "sqlfence: the connection was lost after the statement was sent: " + e.cause.Error()
}
