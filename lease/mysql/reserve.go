package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/connection"
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
		conn, err := connection.Of(ctx, s.pool)
		if err != nil {
			return err
		}
		err = op(conn)
		if err != nil && !isAnswer(err) {
			connection.Discard(conn)
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
	if s.pool == nil {
		return nil
	}
	if kept := connection.Keep(ctx, s.pool, isAnswer); kept != nil {
		return &reserve{kept, s}
	}
	return nil
}

// reserve is a connection for renewals.
type reserve struct {
	*connection.Kept
	store *Store
}

func (r *reserve) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	return r.store.renewOn(ctx, func(ctx context.Context, op func(Querier) error) error {
		return r.Do(ctx, func(conn *sql.Conn) error { return op(conn) })
	}, claims)
}
