package lease

import (
	"context"
	"time"

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

// BoundedFence is a [Fence] whose wait for guarded transactions can be bounded, as
// that of a *guard.Fence can. Another one is given the request's bound, and 5 s for
// its answer, by the deadline of its context alone.
type BoundedFence interface {
	Fence
	// AdvanceWithin is Advance that waits at most for wait, 0 meaning not at all,
	// and then returns a *[BlockedError]. After an error it does not raise the mark
	// later, or the error says that it may.
	AdvanceWithin(ctx context.Context, t guard.Token, wait time.Duration) error
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
// does not answer. Guarded transactions of the former owner are waited for there, as
// long as the request allows; the grant is given back at once if the mark could not
// be raised in time, and the error is a *[BlockedError] that names them. If a Release cannot move the mark, the resource is free all
// the same and the error says so: the next Acquire moves it.
func WithFence(f Fence) Option {
	r := &registered{f}
	if f == nil {
		r = nil
	}
	return func(s *settings) { s.fence = r }
}

// advance raises the mark, and waits at most for wait to be able to.
func (f *registered) advance(ctx context.Context, t guard.Token, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	if bounded, ok := f.Fence.(BoundedFence); ok {
		return bounded.AdvanceWithin(ctx, t, wait)
	}
	return f.Advance(ctx, t)
}
