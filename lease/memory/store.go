// Package memory is a lease store in the memory of one process: for tests, and
// for programs that are alone.
//
// It has the semantics of the other stores, with these differences: epochs live
// as long as the process, nothing waits for guarded transactions because there
// is no guarded storage (the high-water mark is moved with the epoch all the
// same), and the clock can be set.
package memory

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// Store is a [lease.Store] in memory. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu      sync.Mutex
	records map[string]*record
}

var _ lease.Store = (*Store)(nil)

// record is what is known of a resource. Once made it stays: its epoch must
// never be minted again.
type record struct {
	owner  string // "" where free
	epoch  int64  // the newest one minted
	grant  int64
	expiry time.Time
	mark   int64 // above epoch only after an Advance
}

// Option is an option of [New].
type Option func(*Store)

// Clock makes the store judge expiry by now, which must be safe for concurrent
// use. If not set it is [time.Now], also the one of a testing/synctest bubble.
func Clock(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// New returns an empty store.
func New(opts ...Option) *Store {
	s := &Store{now: time.Now, records: make(map[string]*record)}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Acquire implements [lease.Store].
func (s *Store) Acquire(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	if err := req.Validate(); err != nil {
		return lease.Granted{}, err
	}
	if err := ctx.Err(); err != nil {
		return lease.Granted{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r := s.records[req.Resource]
	if r == nil {
		r = &record{}
	}
	if r.held(now) {
		if r.owner != req.Owner || req.Reentry == lease.ReentryRefuse {
			return lease.Granted{}, &lease.HeldError{
				Resource:  req.Resource,
				Holder:    r.owner,
				Remaining: r.expiry.Sub(now),
			}
		}
		// A token below the mark is worthless, and is not handed out again.
		if req.Reentry == lease.ReentryExtend && r.mark == r.epoch && r.epoch >= req.MinEpoch {
			r.expiry = now.Add(req.TTL)
			return r.granted(req), nil
		}
	}
	if err := r.mint(req.MinEpoch - 1); err != nil {
		return lease.Granted{}, err
	}
	r.owner, r.expiry = req.Owner, now.Add(req.TTL)
	s.records[req.Resource] = r
	return r.granted(req), nil
}

// Renew implements [lease.Store].
func (s *Store) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	renewed := make([]lease.Renewed, len(claims))
	for i, c := range claims {
		renewed[i] = s.renew(c, now)
	}
	return renewed, nil
}

func (s *Store) renew(c lease.Claim, now time.Time) lease.Renewed {
	if err := lease.ValidateTTL(c.TTL); err != nil {
		return lease.Renewed{Err: err}
	}
	r, err := s.claimed("renew", c, now)
	if err != nil {
		return lease.Renewed{Err: err}
	}
	r.expiry = now.Add(c.TTL)
	return lease.Renewed{Expiry: instant(r.expiry)}
}

// Release implements [lease.Store]. There is nothing to wait for.
func (s *Store) Release(ctx context.Context, claim lease.Claim, _ time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.claimed("release", claim, s.now())
	if err != nil {
		return err
	}
	if err := r.mint(0); err != nil {
		return err
	}
	r.owner, r.expiry = "", time.Time{}
	return nil
}

// Inspect implements [lease.Store].
func (s *Store) Inspect(ctx context.Context, resource string) (lease.State, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return lease.State{}, err
	}
	if err := ctx.Err(); err != nil {
		return lease.State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := lease.State{Resource: resource}
	r := s.records[resource]
	if r == nil {
		return state, nil
	}
	state.Epoch, state.HighWater = r.epoch, r.mark
	if r.owner == "" {
		return state, nil
	}
	state.Owner, state.Expiry, state.Status = r.owner, instant(r.expiry), lease.Lapsed
	if now := s.now(); r.held(now) {
		state.Status, state.Remaining = lease.Held, r.expiry.Sub(now)
	}
	return state, nil
}

// claimed returns the record that the claim is good for. The checks come in
// the order that all stores keep: owner, lapse, epoch and grant.
func (s *Store) claimed(op string, c lease.Claim, now time.Time) (*record, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	loss := &lease.LossError{Op: op, Claim: c}
	r := s.records[c.Token.Resource]
	if r != nil {
		loss.Holder, loss.Epoch, loss.HighWater = r.owner, r.epoch, r.mark
	}
	switch {
	case r == nil || r.owner != c.Owner:
		loss.Cause = lease.ErrNotOwner
	case !r.held(now):
		loss.Cause = lease.ErrLapsed
	case r.epoch != c.Token.Epoch || r.grant != c.Token.Grant || r.mark != r.epoch:
		loss.Cause = lease.ErrEpochMismatch
	default:
		return r, nil
	}
	return nil, loss
}

func (r *record) held(now time.Time) bool { return r.owner != "" && now.Before(r.expiry) }

// mint moves epoch and mark to the next epoch, above floor, under a grant that
// nobody else has.
func (r *record) mint(floor int64) error {
	newest := max(r.epoch, r.mark, floor)
	if newest == math.MaxInt64 {
		return lease.ErrExhausted
	}
	r.epoch, r.mark, r.grant = newest+1, newest+1, 1+rand.Int64N(math.MaxInt64)
	return nil
}

func (r *record) granted(req lease.AcquireRequest) lease.Granted {
	return lease.Granted{
		Token:  guard.Token{Resource: req.Resource, Epoch: r.epoch, Grant: r.grant},
		Expiry: instant(r.expiry),
		TTL:    req.TTL,
	}
}

// instant strips the monotonic reading, which means nothing to anybody else.
func instant(t time.Time) time.Time { return t.Round(0).UTC() }
