package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/ngrok/sqlmw"
	goredis "github.com/redis/go-redis/v9"
)

// count is what a store has asked of its server.
type count struct {
	statements atomic.Int64 // or commands; BEGIN and COMMIT are statements
	trips      atomic.Int64 // on the wire: a client sends after the server has
}

// dial connects, and counts on that connection.
func (c *count) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, count: c}, nil
}

// countedConn counts turns: a write after a read, or the first.
type countedConn struct {
	net.Conn
	count *count
	asked atomic.Bool
}

func (c *countedConn) Write(b []byte) (int, error) {
	if !c.asked.Swap(true) {
		c.count.trips.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(false)
	}
	return n, err
}

// statements counts what goes through a database/sql driver.
type statements struct {
	sqlmw.NullInterceptor
	count *count
}

var drivers atomic.Int64

// register registers a driver that counts, under a name that it returns.
func (c *count) register(d driver.Driver) string {
	name := fmt.Sprintf("counted-%d", drivers.Add(1))
	sql.Register(name, sqlmw.Driver(d, statements{count: c}))
	return name
}

func (s statements) ConnExecContext(ctx context.Context, conn driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	s.count.statements.Add(1)
	return conn.ExecContext(ctx, query, args)
}

func (s statements) ConnQueryContext(ctx context.Context, conn driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	s.count.statements.Add(1)
	rows, err := conn.QueryContext(ctx, query, args)
	return ctx, rows, err
}

func (s statements) ConnBeginTx(ctx context.Context, conn driver.ConnBeginTx, opts driver.TxOptions) (context.Context, driver.Tx, error) {
	s.count.statements.Add(1)
	tx, err := conn.BeginTx(ctx, opts)
	return ctx, tx, err
}

func (s statements) TxCommit(_ context.Context, tx driver.Tx) error {
	s.count.statements.Add(1)
	return tx.Commit()
}

func (s statements) TxRollback(_ context.Context, tx driver.Tx) error {
	s.count.statements.Add(1)
	return tx.Rollback()
}

func (s statements) StmtExecContext(ctx context.Context, stmt driver.StmtExecContext, _ string, args []driver.NamedValue) (driver.Result, error) {
	s.count.statements.Add(1)
	return stmt.ExecContext(ctx, args)
}

func (s statements) StmtQueryContext(ctx context.Context, stmt driver.StmtQueryContext, _ string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	s.count.statements.Add(1)
	rows, err := stmt.QueryContext(ctx, args)
	return ctx, rows, err
}

// commands counts what a Redis client sends.
type commands struct{ count *count }

func (c commands) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (c commands) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		c.count.statements.Add(1)
		return next(ctx, cmd)
	}
}

func (c commands) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		c.count.statements.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}
