package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/connection"
)

var _ lease.Reserver = (*Store)(nil)

// Reserve implements [lease.Reserver]: while a manager keeps leases alive, one
// connection of the pool is kept for their renewals, if the pool's number of
// connections is bounded and above one. They still need the write lock.
func (s *Store) Reserve(ctx context.Context) lease.Reserve {
	pool, ok := s.q.(connection.Pool)
	if !ok {
		return nil
	}
	if kept := connection.Keep(ctx, pool, isUsable); kept != nil {
		return &reserve{kept, s}
	}
	return nil
}

// isUsable: an operation closes the connection itself after what it must not be used
// again.
func isUsable(err error) bool {
	return !errors.Is(err, driver.ErrBadConn) && !errors.Is(err, sql.ErrConnDone)
}

// reserve is a connection for renewals.
type reserve struct {
	*connection.Kept
	store *Store
}

func (r *reserve) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	return r.store.renewOn(ctx, r.Kept, claims)
}
