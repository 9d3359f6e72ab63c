package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"
)

// bareConn is what a connection of modernc.org/sqlite can do.
type bareConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

// counter is a connector that counts the statements of its connections, BEGIN, COMMIT
// and PRAGMA among them.
type counter struct {
	dsn        string
	statements atomic.Int64
}

func (c *counter) Driver() driver.Driver { return &sqlite.Driver{} }

func (c *counter) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	bare, ok := conn.(bareConn)
	if !ok {
		return nil, fmt.Errorf("%T is not what this test knows", conn)
	}
	return &countedConn{bare, c}, nil
}

// openCounted opens a pool on the file that counts.
func openCounted(t *testing.T, file string) (*sql.DB, *counter) {
	t.Helper()
	c := &counter{dsn: "file:" + file + walAndTimeout}
	db := sql.OpenDB(c)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, c
}

type countedConn struct {
	bareConn
	counter *counter
}

func (c *countedConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	c.counter.statements.Add(1)
	return c.bareConn.ExecContext(ctx, text, args)
}

func (c *countedConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.counter.statements.Add(1)
	return c.bareConn.QueryContext(ctx, text, args)
}

func (c *countedConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return nil, fmt.Errorf("a prepared statement would not be counted")
}
