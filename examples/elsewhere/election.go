// Package elsewhere is a recipe: the lease lives in etcd, ZooKeeper or anything else that
// numbers its grants, and the data in a SQL database.
//
// For leases in Redis there is a store, lease/redis, and one option does what this
// package does by hand: see NewRedis.
package elsewhere

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// Election is what is needed of the service that elects. An election of etcd's package
// concurrency has these methods but Lost, which is its session's Done.
type Election interface {
	// Campaign returns when this candidate is elected.
	Campaign(ctx context.Context, candidate string) error
	// Rev is the number of the win, greater than that of every win before: in etcd
	// the revision at which the leader's key was created.
	Rev() int64
	// Resign gives the leadership up.
	Resign(ctx context.Context) error
	// Lost is closed when the service no longer counts this candidate as alive.
	Lost() <-chan struct{}
}

var errLost = fmt.Errorf("%w: the election's session ended", lease.ErrLost)

// Lead calls work when the candidate is elected. Writes with work's context to db are
// refused once a later winner's Lead has begun; ctx ends when the election is lost.
func Lead(ctx context.Context, e Election, db *sql.DB, engine sqlgen.Engine, resource, candidate string, work func(context.Context) error) (err error) {
	if err := e.Campaign(ctx, candidate); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Resign(context.WithoutCancel(ctx))) }()
	token := guard.Token{Resource: resource, Epoch: e.Rev()}
	// The database must know the token before the first write: from here on older
	// ones are refused. If that fails, somebody elected later was faster.
	if err := guard.NewFence(db, engine).Advance(ctx, token); err != nil {
		return err
	}
	working, cancel := context.WithCancelCause(guard.With(ctx, token))
	defer cancel(nil)
	go func() {
		select {
		case <-e.Lost():
			cancel(errLost)
		case <-working.Done():
		}
	}()
	return work(working)
}

// NewRedis returns a manager of leases that live in Redis, for data in db: each token is
// registered there before the lease is handed out. If Redis forgets its counters, the
// marks in db keep epochs growing.
func NewRedis(client redis.UniversalClient, db *sql.DB, engine sqlgen.Engine, opts ...lease.Option) (*lease.Manager, error) {
	return lease.NewManager(leaseredis.New(client), append(opts, lease.WithFence(guard.NewFence(db, engine)))...)
}
