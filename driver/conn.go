package driver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/ngrok/sqlmw"

	"github.com/sqlfence/sqlfence/driver/internal/native"
	"github.com/sqlfence/sqlfence/guard"
)

// What every wrapped connection implements. Where the bare one does not, the
// methods answer what database/sql would have done in their absence. ExecerContext,
// QueryerContext, SessionResetter and Validator have no such answer; they are
// there if the bare connection has them (see shape).
var (
	_ driver.Conn               = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.NamedValueChecker  = (*conn)(nil)

	_ driver.ExecerContext   = connExecer{}
	_ driver.QueryerContext  = connQueryer{}
	_ driver.SessionResetter = connResetter{}
	_ driver.Validator       = connValidator{}
)

// conn is the outermost layer of a connection: conn ▸ sqlmw ▸ session ▸ raw. It
// restores what sqlmw loses of the raw connection, and lets by what needs no
// attention.
type conn struct {
	raw     driver.Conn
	mw      mwConn
	session *session

	execer  driver.ExecerContext  // of raw, nil where it has none
	queryer driver.QueryerContext // of raw, nil where it has none
}

// mwConn is what sqlmw's connection implements.
type mwConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
}

// newConn wraps a connection, which it closes if it cannot.
func newConn(raw driver.Conn, sh *shared) (driver.Conn, error) {
	if _, wrapped := fenceConn(raw); wrapped {
		_ = raw.Close() // the error of interest is the one below
		return nil, &guard.SetupError{
			Problem: "the driver to be wrapped is already behind a fence, and every write would be guarded twice",
			Remedy:  "wrap the bare driver once",
		}
	}
	s := &session{raw: raw, native: native.Of(raw), shared: sh}
	// An interceptor of its own for each connection, so that it can hold the
	// connection's state: sqlmw tells an interceptor nothing of the connection.
	mw, err := sqlmw.Driver(oneConn{raw}, s).Open("")
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, mw: mw.(mwConn), session: s}
	c.execer, _ = raw.(driver.ExecerContext)
	c.queryer, _ = raw.(driver.QueryerContext)
	return shape(c), nil
}

// oneConn is a driver that hands out one connection.
type oneConn struct{ driver.Conn }

func (o oneConn) Open(string) (driver.Conn, error) { return o.Conn, nil }

// Raw returns the bare connection under a connection of this module, as it is
// given to the function of [sql.Conn.Raw], also where middleware that shows what
// it wraps lies around that; and false for any other connection. What is done
// on it is not guarded, and a transaction begun or ended on it, or a text prepared
// on it under other settings, may go unnoticed: it is the one explicit, greppable way around the fence below [sql.DB].
func Raw(driverConn any) (driver.Conn, bool) {
	c, ok := fenceConn(driverConn)
	if !ok {
		return nil, false
	}
	c.session.databases, c.session.unsure, c.session.commits, c.session.mayBeXA = unasked, true, commitsUnasked, true
	c.session.kept, c.session.nested, c.session.recoded = nil, true, true
	return c.raw, true
}

// fenceConn finds a connection of ours under c, through middleware that shows
// what it wraps, as XSAM/otelsql does.
func fenceConn(c any) (*conn, bool) {
	for range 16 {
		switch v := c.(type) {
		case interface{ fence() *conn }:
			return v.fence(), true
		case interface{ Raw() driver.Conn }:
			c = v.Raw()
		default:
			return nil, false
		}
	}
	return nil, false
}

func (c *conn) fence() *conn { return c }

// Prepare implements [driver.Conn].
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext implements [driver.ConnPrepareContext].
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	mw, err := c.mw.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return newStmt(mw, c.session.takePrepared()), nil
}

// Close implements [driver.Conn].
func (c *conn) Close() error { return c.mw.Close() }

// Begin implements [driver.Conn].
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements [driver.ConnBeginTx].
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if _, ok := c.raw.(driver.ConnBeginTx); !ok {
		// sqlmw would drop the options; database/sql refuses them.
		if opts.Isolation != driver.IsolationLevel(sql.LevelDefault) {
			return nil, errors.New("sql: driver does not support non-default isolation level")
		}
		if opts.ReadOnly {
			return nil, errors.New("sql: driver does not support read-only transactions")
		}
	}
	return c.mw.BeginTx(ctx, opts)
}

// Ping implements [driver.Pinger].
func (c *conn) Ping(ctx context.Context) error { return c.mw.Ping(ctx) }

// CheckNamedValue implements [driver.NamedValueChecker]. ErrSkip makes
// database/sql go on as if the method were absent.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.raw.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type connExecer struct{ c *conn }

// ExecContext implements [driver.ExecerContext].
func (e connExecer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c := e.c
	if c.execer != nil && c.session.unconcerned(ctx, query) {
		c.session.look(query, args)
		return c.execer.ExecContext(ctx, query, args)
	}
	return c.mw.ExecContext(ctx, query, args)
}

type connQueryer struct{ c *conn }

// QueryContext implements [driver.QueryerContext].
func (q connQueryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c := q.c
	if c.queryer != nil && c.session.unconcerned(ctx, query) {
		c.session.look(query, args)
		return c.queryer.QueryContext(ctx, query, args)
	}
	if _, err := c.mw.QueryContext(ctx, query, args); err != nil {
		return nil, err
	}
	// Not sqlmw's wrapping of the rows: it hides what it does not know.
	return c.session.takeRows(), nil
}

type connResetter struct{ c *conn }

// ResetSession implements [driver.SessionResetter].
func (r connResetter) ResetSession(ctx context.Context) error {
	if err := r.c.session.reset(); err != nil {
		return err
	}
	return r.c.raw.(driver.SessionResetter).ResetSession(ctx)
}

type connValidator struct{ c *conn }

// IsValid implements [driver.Validator].
func (v connValidator) IsValid() bool {
	return !v.c.session.broken && v.c.raw.(driver.Validator).IsValid()
}

// shape returns c with exactly those of the four interfaces that the raw
// connection has. A connection that only seems to be an ExecerContext has its
// arguments converted without the statement's ColumnConverter (CASES D16), and
// one that seems to be resettable and a Validator survives the cancelling of a
// transaction, which the bare one does not (CASES D17).
func shape(c *conn) driver.Conn {
	_, execer := c.raw.(driver.Execer)
	_, queryer := c.raw.(driver.Queryer)
	_, resetter := c.raw.(driver.SessionResetter)
	_, validator := c.raw.(driver.Validator)
	n := 0
	for i, has := range []bool{execer || c.execer != nil, queryer || c.queryer != nil, resetter, validator} {
		if has {
			n |= 1 << i
		}
	}
	e, q, r, v := connExecer{c}, connQueryer{c}, connResetter{c}, connValidator{c}
	switch n {
	case 1:
		return struct {
			*conn
			connExecer
		}{c, e}
	case 2:
		return struct {
			*conn
			connQueryer
		}{c, q}
	case 3:
		return struct {
			*conn
			connExecer
			connQueryer
		}{c, e, q}
	case 4:
		return struct {
			*conn
			connResetter
		}{c, r}
	case 5:
		return struct {
			*conn
			connExecer
			connResetter
		}{c, e, r}
	case 6:
		return struct {
			*conn
			connQueryer
			connResetter
		}{c, q, r}
	case 7:
		return struct {
			*conn
			connExecer
			connQueryer
			connResetter
		}{c, e, q, r}
	case 8:
		return struct {
			*conn
			connValidator
		}{c, v}
	case 9:
		return struct {
			*conn
			connExecer
			connValidator
		}{c, e, v}
	case 10:
		return struct {
			*conn
			connQueryer
			connValidator
		}{c, q, v}
	case 11:
		return struct {
			*conn
			connExecer
			connQueryer
			connValidator
		}{c, e, q, v}
	case 12:
		return struct {
			*conn
			connResetter
			connValidator
		}{c, r, v}
	case 13:
		return struct {
			*conn
			connExecer
			connResetter
			connValidator
		}{c, e, r, v}
	case 14:
		return struct {
			*conn
			connQueryer
			connResetter
			connValidator
		}{c, q, r, v}
	case 15:
		return struct {
			*conn
			connExecer
			connQueryer
			connResetter
			connValidator
		}{c, e, q, r, v}
	}
	return c
}
