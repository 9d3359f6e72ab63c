// Package connection takes connections of a pool that the program uses too.
package connection

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
)

// Pool is what a *sql.DB is.
type Pool interface {
	Conn(ctx context.Context) (*sql.Conn, error)
}

// limited is a pool that tells how many connections it may have.
type limited interface{ Stats() sql.DBStats }

// Of returns a connection of the pool. Waiting for one in vain looks like a
// server that does not answer, and is cured elsewhere: the error says so.
func Of(ctx context.Context, pool Pool) (*sql.Conn, error) {
	conn, err := pool.Conn(ctx)
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return conn, err
	}
	l, ok := pool.(limited)
	if !ok {
		return nil, err
	}
	if stats := l.Stats(); stats.MaxOpenConnections > 0 && stats.InUse >= stats.MaxOpenConnections {
		return nil, fmt.Errorf("%w: no connection of the pool became free, all %d are in use (SetMaxOpenConns): give the lease store a pool of its own",
			err, stats.InUse)
	}
	return nil, err
}

// Discard closes the connection instead of giving it back to the pool.
func Discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// Kept is a connection that is kept for renewals. It is safe for concurrent use, one
// call at a time.
type Kept struct {
	pool     Pool
	isAnswer func(error) bool
	mu       sync.Mutex
	conn     *sql.Conn // nil: lost
}

// Keep takes a connection before ctx ends, or at a later Do; nil if the pool has no
// bound, or none to spare. isAnswer tells the server's own errors from those after
// which the connection is not to be used again.
func Keep(ctx context.Context, pool Pool, isAnswer func(error) bool) *Kept {
	l, ok := pool.(limited)
	if !ok || l.Stats().MaxOpenConnections < 2 {
		return nil
	}
	k := &Kept{pool: pool, isAnswer: isAnswer}
	// Without one, the first renewal tries again.
	k.conn, _ = pool.Conn(ctx)
	return k
}

// Do runs op on the connection.
func (k *Kept) Do(ctx context.Context, op func(*sql.Conn) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for attempt := 1; ; attempt++ {
		if k.conn == nil {
			conn, err := Of(ctx, k.pool)
			if err != nil {
				return err
			}
			k.conn = conn
		}
		err := op(k.conn)
		// It may have died while nobody used it.
		if err != nil && !k.isAnswer(err) {
			Discard(k.conn)
			k.conn.Close() // nothing to report: it is gone
			k.conn = nil
		}
		if attempt == 2 || !errors.Is(err, driver.ErrBadConn) && !errors.Is(err, sql.ErrConnDone) {
			return err
		}
	}
}

// Close gives the connection back, after a Do at work.
func (k *Kept) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		k.conn.Close() // back to the pool
		k.conn = nil
	}
}
