package lease

import (
	"context"

	"github.com/sqlfence/sqlfence/guard"
)

// Fence is the high-water mark of guarded storage that is not the store's own: a
// *guard.Fence of any SQL database.
type Fence interface {
	// Advance raises the mark to the token, and returns a *guard.FencedError if
	// it is higher. Once it has returned nil, no write with an older token
	// becomes visible.
	Advance(ctx context.Context, t guard.Token) error
}

// registered is a fence that can be compared.
type registered struct{ Fence }

// WithFence is for leases whose guarded data is elsewhere: leases in Redis, data
// in PostgreSQL, say. The mark there is advanced to each token before the lease
// is handed out, and past it when it is released. If the store has lost its
// counter, the mark is the floor: the store is asked for an epoch above it.
//
//	leases, err := lease.NewManager(leaseredis.New(client), lease.WithFence(guard.NewFence(db, sqlgen.PostgreSQL)))
//
// An Acquire then takes another round trip, and fails if the fence's database
// does not answer. If a Release cannot move the mark, the resource is free all
// the same and the error says so: the next Acquire moves it.
func WithFence(f Fence) Option {
	r := &registered{f}
	if f == nil {
		r = nil
	}
	return func(s *settings) { s.fence = r }
}
