package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/sqlfence/sqlfence/lease"
)

var _ lease.Reserver = (*Store)(nil)

// onConn runs op on a connection of the pool, if there is one. One that turns out to
// be dead before anything was sent is replaced, as database/sql does. After an error
// that is not the server's answer it is closed: a procedure that was interrupted
// leaves its transaction open.
func (s *Store) onConn(ctx context.Context, op func(Querier) error) error {
	if s.pool == nil {
		return op(s.q)
	}
	for try := 1; ; try++ {
		conn, err := s.conn(ctx)
		if err != nil {
			return err
		}
		err = op(conn)
		if err != nil && !isAnswer(err) {
			discard(conn)
		}
		conn.Close() // back to the pool
		if !errors.Is(err, driver.ErrBadConn) || try == 3 {
			return err
		}
	}
}

// Reserve implements [lease.Reserver]: while a manager keeps leases alive, one
// connection of the pool is kept for their renewals, if the pool's number of
// connections is bounded and above one.
func (s *Store) Reserve(ctx context.Context) lease.Reserve {
	limited, ok := s.q.(interface{ Stats() sql.DBStats })
	if !ok || s.pool == nil || limited.Stats().MaxOpenConnections < 2 {
		return nil
	}
	r := &reserve{store: s}
	// Without one, the first renewal tries again.
	r.conn, _ = s.pool.Conn(ctx)
	return r
}

// reserve is a connection for renewals.
type reserve struct {
	store *Store
	mu    sync.Mutex
	conn  *sql.Conn // nil: lost
}

func (r *reserve) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	return r.store.renewOn(ctx, r.on, claims)
}

func (r *reserve) on(ctx context.Context, op func(Querier) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for try := 1; ; try++ {
		if r.conn == nil {
			conn, err := r.store.conn(ctx)
			if err != nil {
				return err
			}
			r.conn = conn
		}
		err := op(r.conn)
		// Its connection may have died while nobody used it.
		if err != nil && !isAnswer(err) {
			discard(r.conn)
			r.conn.Close()
			r.conn = nil
		}
		if try == 2 || !errors.Is(err, driver.ErrBadConn) && !errors.Is(err, sql.ErrConnDone) {
			return err
		}
	}
}

func (r *reserve) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		r.conn.Close() // back to the pool
		r.conn = nil
	}
}

// conn returns a connection of the pool. Waiting for one in vain looks like a
// server that does not answer, and is cured elsewhere.
func (s *Store) conn(ctx context.Context) (*sql.Conn, error) {
	conn, err := s.pool.Conn(ctx)
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return conn, err
	}
	limited, ok := s.q.(interface{ Stats() sql.DBStats })
	if !ok {
		return nil, err
	}
	if stats := limited.Stats(); stats.MaxOpenConnections > 0 && stats.InUse >= stats.MaxOpenConnections {
		return nil, fmt.Errorf("%w: no connection of the pool became free, all %d are in use (SetMaxOpenConns): give the lease store a pool of its own",
			err, stats.InUse)
	}
	return nil, err
}
