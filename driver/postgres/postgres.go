// Package postgres registers, on import, the driver "sqlfence-pgx" with
// database/sql: pgx behind the fence.
//
//	import _ "github.com/sqlfence/sqlfence/driver/postgres"
//
//	db, err := sql.Open("sqlfence-pgx", dsn)
package postgres

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/native"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// DriverName is the name of the driver that importing this package registers.
const DriverName = "sqlfence-pgx"

func init() {
	native.Register(open)
	Register(DriverName)
}

// Register registers pgx behind the fence under a name of the caller's, with
// options. It panics if the name is taken.
func Register(name string, opts ...fence.Option) {
	fence.Register(name, stdlib.GetDefaultDriver(), sqlgen.PostgreSQL, opts...)
}

// WrapConnector puts the fence before the connections of a connector of pgx,
// such as [stdlib.GetConnector] returns, for [database/sql.OpenDB]. It panics if
// the connector is nil.
func WrapConnector(c driver.Connector, opts ...fence.Option) driver.Connector {
	return fence.WrapConnector(c, sqlgen.PostgreSQL, opts...)
}

var _ native.Conn = (*conn)(nil)

// conn is what pgx knows of a connection.
type conn struct {
	pgx     *pgx.Conn
	simple  bool // statements are sent by the simple protocol unless told otherwise
	misread bool // see Misread
}

// misread is where a connection keeps it: one of a pool of pgx's outlives what
// database/sql knows of it, and so does its cache of statements.
const misread = "sqlfence: a text was read otherwise"

func open(raw driver.Conn) native.Conn {
	c, ok := raw.(*stdlib.Conn)
	if !ok {
		return nil
	}
	_, before := c.Conn().PgConn().CustomData()[misread]
	return &conn{pgx: c.Conn(), simple: c.Conn().Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol, misread: before}
}

// InTransaction implements [native.Conn]: the server tells with every answer.
func (c *conn) InTransaction() bool { return c.pgx.PgConn().TxStatus() != 'I' }

// Leading implements [native.Conn]. These are the options that pgx.Conn.Exec and
// pgx.Conn.Query take off the front of their arguments.
func (c *conn) Leading(args []driver.NamedValue, query bool) (n int, rewrites bool) {
	for ; n < len(args); n++ {
		switch args[n].Value.(type) {
		case pgx.QueryExecMode:
		case pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			if !query {
				return n, rewrites
			}
		case pgx.QueryRewriter:
			rewrites = true
		default:
			return n, rewrites
		}
	}
	return n, rewrites
}

// Rewrite implements [native.Conn]. As in pgx, the last rewriter is the one that
// counts.
func (c *conn) Rewrite(ctx context.Context, text string, args []driver.NamedValue, query bool) (string, []driver.NamedValue, error) {
	n, _ := c.Leading(args, query)
	var rewriter pgx.QueryRewriter
	var kept []driver.NamedValue
	for _, a := range args[:n] {
		if r, ok := a.Value.(pgx.QueryRewriter); ok {
			rewriter = r
		} else {
			kept = append(kept, driver.NamedValue{Ordinal: len(kept) + 1, Value: a.Value})
		}
	}
	values := make([]any, 0, len(args)-n)
	for _, a := range args[n:] {
		values = append(values, a.Value)
	}
	text, values, err := rewriter.RewriteQuery(ctx, c.pgx, text, values)
	if err != nil {
		return "", nil, fmt.Errorf("rewrite query failed: %w", err)
	}
	rewritten := make([]driver.NamedValue, 0, len(values))
	for i, v := range values {
		rewritten = append(rewritten, driver.NamedValue{Ordinal: len(kept) + i + 1, Value: v})
	}
	if n, _ := c.Leading(rewritten, true); n > 0 {
		return "", nil, &guard.UnsupportedError{
			Kind:   fmt.Sprintf("a statement with a %T", rewriter),
			Reason: fmt.Sprintf("the first of the values that it returns, a %T, is an option of pgx", values[0]),
			Advice: "pass plain arguments",
		}
	}
	return text, append(kept, rewritten...), nil
}

// Unprepared implements [native.Conn]. Pgx sends an Exec without arguments by
// the simple protocol. With those of the fence it would prepare each such
// text, and programs that write their values into it send a new one every time
// (DESIGN §5).
func (c *conn) Unprepared() (driver.Value, bool) {
	if c.simple {
		return nil, false
	}
	return pgx.QueryExecModeExec, true
}

// Widths implements [native.Conn]. It is what pgx makes of values by the simple
// protocol: a string of each, with a blank on both sides.
func (c *conn) Widths(args []driver.NamedValue) ([]int, bool) {
	n, _ := c.Leading(args, true)
	simple := c.simple
	for _, a := range args[:n] {
		if mode, ok := a.Value.(pgx.QueryExecMode); ok {
			simple = mode == pgx.QueryExecModeSimpleProtocol
		}
	}
	if !simple {
		return nil, true
	}
	widths := make([]int, 0, len(args)-n)
	for _, a := range args[n:] {
		text, err := c.pgx.TypeMap().Encode(0, pgtype.TextFormatCode, a.Value, []byte{})
		switch {
		case err != nil:
			return nil, false
		case text == nil:
			widths = append(widths, len(" null "))
		default:
			widths = append(widths, utf8.RuneCount(text)+bytes.Count(text, []byte{'\''})+len(" '' "))
		}
	}
	return widths, true
}

// StandardStrings implements [native.Conn]: the server tells of each change
// before it takes the next statement.
func (c *conn) StandardStrings() bool {
	return c.pgx.PgConn().ParameterStatus("standard_conforming_strings") == "on"
}

// Encoding implements [native.Conn].
func (c *conn) Encoding() string { return c.pgx.PgConn().ParameterStatus("client_encoding") }

// Misread implements [native.Conn].
func (c *conn) Misread() bool { return c.misread }

// Misreads implements [native.Conn].
func (c *conn) Misreads() {
	c.misread = true
	c.pgx.PgConn().CustomData()[misread] = true
}

// Alone implements [native.Conn].
func (c *conn) Alone(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "25001" && e.Routine == "PreventInTransactionBlock"
}
