package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sqlfence/sqlfence/guard"
)

const (
	// tryQueue and acquireQueue bound, in one attempt, the wait for open
	// guarded transactions of the former owner. Acquire's is long, because to
	// queue again is to let later transactions ahead.
	tryQueue     = 5 * time.Second
	acquireQueue = time.Minute
	// callTimeout is what a store is given to answer an attempt, beyond the
	// wait that was asked for.
	callTimeout = 5 * time.Second
	// slack is by how much a bounded wait may be overdrawn for the round trip.
	slack = 400 * time.Millisecond
	// grace is what an attempt in flight is given to end by itself when its
	// caller has left: cancelled at once, its outcome would often be unknown.
	grace = time.Second
	// releaseTimeout bounds a Release.
	releaseTimeout = 5 * time.Second
	// The pause between two attempts on a held resource grows from firstPoll
	// to lastPoll; a denial is a read, and writes nothing.
	firstPoll = 50 * time.Millisecond
	lastPoll  = time.Second
)

// ErrClosed says that the manager was closed.
var ErrClosed = errors.New("sqlfence: lease manager closed")

// Manager takes leases from a store and keeps them alive: all of them with one
// goroutine and, per interval, one request. It is safe for concurrent use.
type Manager struct {
	store    Store
	defaults settings
	now      func() instant
	waiters  waiters
	renewer  renewer

	mu      sync.Mutex
	closed  bool
	closing chan struct{}  // closed by Close
	calls   sync.WaitGroup // goroutines of the manager
}

// NewManager returns a manager of leases in the store. The error matches
// [ErrInvalidInput]. A manager costs nothing until it keeps a lease alive.
func NewManager(store Store, opts ...Option) (*Manager, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: no store", ErrInvalidInput)
	}
	defaults, err := settings{owner: uniqueOwner(), ttl: DefaultTTL}.with(opts)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		store:    store,
		defaults: defaults,
		now:      machineNow,
		closing:  make(chan struct{}),
	}
	m.renewer.init(m)
	return m, nil
}

// TryAcquire takes the lease if nobody holds it. It does not wait for a live
// holder; it does wait, for 5 s or what [Wait] says, for guarded transactions
// of the former owner that are still open.
//
// The error is a *[HeldError] if somebody holds the resource, a
// *[BlockedError] if such transactions are in the way, matches
// [ErrInvalidInput], [ErrExhausted] or [ErrClosed], matches ctx's error if ctx
// ended, or is the store's. The lease outlives ctx. Cancelling ctx makes
// TryAcquire return at once; if the request in flight is granted after that,
// the lease is released at once. Only where the store's answer is lost
// altogether may a lease be left that nobody has: it lapses after its TTL, and
// this manager can acquire over it before.
func (m *Manager) TryAcquire(ctx context.Context, resource string, opts ...Option) (*Lease, error) {
	set, err := m.defaults.with(opts)
	if err != nil {
		return nil, err
	}
	wait := tryQueue
	if set.bounded {
		wait = set.bound
	}
	wait = clip(ctx, wait)
	return m.attempt(ctx, set, resource, wait, max(wait+slack, callTimeout))
}

// Acquire takes the lease, and waits for it until ctx ends, or as long as
// [Wait] says. It sleeps for what is left of the holder's TTL or until its
// next look, at most a second with jitter; a Release in this manager wakes it
// earlier. Among waiters no order is promised.
//
// The errors are those of [Manager.TryAcquire], but a *[HeldError] is returned
// only when the wait is over: a spent bound matches [ErrTimeout], and the
// denial that was found last, and the end of ctx matches ctx's error, and the
// denial that was found last.
func (m *Manager) Acquire(ctx context.Context, resource string, opts ...Option) (*Lease, error) {
	set, err := m.defaults.with(opts)
	if err != nil {
		return nil, err
	}
	released := m.waiters.join(resource)
	woken := false // and did not try since
	defer func() { m.waiters.leave(resource, released, woken) }()

	start := time.Now()
	poll := firstPoll
	var denial error
	for {
		wait, patience := acquireQueue, acquireQueue+callTimeout
		if set.bounded {
			elapsed := time.Since(start)
			wait = min(wait, max(set.bound-elapsed, 0))
			patience = min(patience, max(set.bound+slack, callTimeout)-elapsed)
		}
		l, err := m.attempt(ctx, set, resource, clip(ctx, wait), patience)
		switch {
		case err == nil:
			woken = false
			return l, nil
		case ctx.Err() != nil:
			return nil, join(err, denial)
		case errors.Is(err, ErrNotAcquirable), errors.Is(err, ErrBlocked):
			woken = false
			denial = err
		default:
			return nil, err
		}

		pause := poll/2 + rand.N(poll/2)
		poll = min(2*poll, lastPoll)
		var held *HeldError
		if errors.As(denial, &held) && held.Remaining < pause {
			// Not before the expiry, and not all at once after it.
			pause = max(held.Remaining, 0) + rand.N(firstPoll/4)
		}
		if set.bounded {
			left := set.bound - time.Since(start)
			if left <= 0 {
				return nil, spent(set.bound, denial)
			}
			pause = min(pause, left)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-released:
			woken = true
		case <-m.closing:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// attempt asks the store once and waits for the answer until ctx ends or
// patience is spent. The request runs under a context of its own: a caller who
// leaves must not leave a lease behind, so the answer is awaited in any case,
// and a grant that finds the caller gone is released.
func (m *Manager) attempt(ctx context.Context, set settings, resource string, wait, patience time.Duration) (*Lease, error) {
	req := AcquireRequest{Resource: resource, Owner: set.owner, TTL: set.ttl, Wait: wait, Reentry: set.reentry}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, gaveUp(ctx, resource)
	}
	if !m.enter() {
		return nil, ErrClosed
	}

	type answer struct {
		lease *Lease
		err   error
	}
	answers := make(chan answer) // unbuffered: an answer is either taken or not
	left := make(chan struct{})
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer m.calls.Done()
		defer cancel()
		l, err := m.grant(callCtx, set, req)
		select {
		case answers <- answer{l, err}:
		case <-left:
			if l != nil {
				_ = l.Release(callCtx) // if it fails, the lease lapses
			}
		}
	}()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	var err error
	select {
	case a := <-answers:
		return a.lease, a.err
	case <-ctx.Done():
		err = gaveUp(ctx, resource)
	case <-m.closing:
		err = ErrClosed
	case <-timer.C:
		err = fmt.Errorf("%w: acquiring %q: no answer from the store in %v", ErrTimeout, resource, patience)
	}
	close(left)
	time.AfterFunc(grace, cancel)
	return nil, err
}

// grant makes the request.
func (m *Manager) grant(ctx context.Context, set settings, req AcquireRequest) (*Lease, error) {
	sent := m.now()
	g, err := m.store.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	l := newLease(m, set, g, sent)
	// The TTL counts from the grant, but of the grant's time we know only that
	// it was not before the request was sent. If the request had to queue, the
	// lease would reach its caller with little or nothing left (CASES D13b), so
	// it is renewed first.
	if m.now().since(sent) > set.ttl/3 {
		if err := l.Renew(ctx); err != nil && l.left(m.now()) <= 0 {
			return nil, errors.Join(
				fmt.Errorf("sqlfence: the grant of %q took longer than its TTL %v: %w", req.Resource, set.ttl, err),
				l.Release(ctx))
		}
	}
	return l, nil
}

// Inspect returns the state of a resource without waiting for any lock. It is
// advisory. The error matches [ErrInvalidInput], or is the store's.
func (m *Manager) Inspect(ctx context.Context, resource string) (State, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return State{}, err
	}
	return m.store.Inspect(ctx, resource)
}

// HighWater returns the high-water mark of a resource, 0 if it was never seen.
// The errors are those of [Manager.Inspect].
func (m *Manager) HighWater(ctx context.Context, resource string) (int64, error) {
	s, err := m.Inspect(ctx, resource)
	return s.HighWater, err
}

// Close ends the background work: contexts of KeepAlive and Hold end with a
// cause that matches [ErrClosed] and [ErrLost], waiting and later Acquires
// return [ErrClosed]. It waits for requests in flight. It releases nothing:
// whoever acquired still does that, as Hold does when fn returns, and Release
// works after Close. A second Close does nothing.
func (m *Manager) Close() {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.closing)
	}
	m.mu.Unlock()
	m.renewer.close()
	m.calls.Wait()
}

// enter counts a goroutine of the manager, and reports false after Close.
func (m *Manager) enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.calls.Add(1)
	return true
}

// clip shortens a wait so that it ends before ctx does: the store then still
// has the time to say what is in the way.
func clip(ctx context.Context, wait time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, left-min(left/10, 100*time.Millisecond))
	}
	return max(wait, 0)
}

// gaveUp tells that ctx ended, and why.
func gaveUp(ctx context.Context, resource string) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("sqlfence: gave up acquiring %q: %w", resource, cause)
	}
	return fmt.Errorf("sqlfence: gave up acquiring %q: %w: %w", resource, ctx.Err(), cause)
}

// spent tells that a bound was spent, and on what.
func spent(bound time.Duration, denial error) error {
	if errors.Is(denial, ErrTimeout) {
		return denial
	}
	return fmt.Errorf("%w: waited %v: %w", ErrTimeout, bound, denial)
}

// join adds the denial that was found last, if any, to err.
func join(err, denial error) error {
	if denial == nil {
		return err
	}
	return fmt.Errorf("%w; found last: %w", err, denial)
}
