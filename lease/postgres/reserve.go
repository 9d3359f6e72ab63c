package postgres

import (
	"context"
	"database/sql"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/connection"
)

var _ lease.Reserver = (*Store)(nil)

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
	return r.store.renew(ctx, claims, func(op func(Querier) error) error {
		return r.Do(ctx, func(conn *sql.Conn) error { return op(conn) })
	})
}
