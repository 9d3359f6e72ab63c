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
	// toldPoll is the pause where the store tells of releases: a message may
	// be lost without either end knowing.
	toldPoll = 10 * time.Second
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
	grants   grants

	mu      sync.Mutex
	closed  bool
	orphans map[kind]*flight // requests that nobody waits for, and anybody may
	closing chan struct{}    // closed by Close
	calls   sync.WaitGroup   // goroutines of the manager
}

// NewManager returns a manager of leases in the store. The error matches
// [ErrInvalidInput]. A manager costs nothing until it keeps a lease alive.
func NewManager(store Store, opts ...Option) (*Manager, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: no store", ErrInvalidInput)
	}
	defaults, err := settings{owner: uniqueOwner(), ttl: DefaultTTL, report: &report{}}.with(opts)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		store:    store,
		defaults: defaults,
		now:      machineNow,
		closing:  make(chan struct{}),
	}
	if err := m.checkEvict(defaults); err != nil {
		return nil, err
	}
	m.waiters.watcher, _ = store.(Watcher)
	m.renewer.init(m)
	return m, nil
}

// TryAcquire takes the lease if nobody holds it. It does not wait for a live
// holder; it does wait, for 5 s or what [Wait] says, for guarded transactions
// of the former owner that are still open. A lease of this manager does not
// count as somebody's, as in [Manager.Acquire].
//
// The lease is not renewed until [Lease.KeepAlive]: it lapses after its TTL.
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
	set, err := m.settings(opts)
	if err != nil {
		return nil, err
	}
	wait := tryQueue
	if set.bounded {
		wait = set.bound
	}
	wait = clip(ctx, wait)
	start := time.Now()
	l, err := m.attempt(ctx, set, resource, wait, max(wait+slack, callTimeout))
	if err != nil {
		if errors.Is(err, ErrNotAcquirable) || errors.Is(err, ErrBlocked) {
			set.report.denied(resource, err)
		}
		return nil, err
	}
	set.report.acquired(l.token, time.Since(start))
	return l, nil
}

// settings returns the manager's settings changed by the options.
func (m *Manager) settings(opts []Option) (settings, error) {
	set, err := m.defaults.with(opts)
	if err == nil {
		err = m.checkEvict(set)
	}
	return set, err
}

// Acquire takes the lease, and waits for it until ctx ends, or as long as
// [Wait] says. It sleeps for what is left of the holder's TTL or until its
// next look, at most a second with jitter, or ten seconds where the store can
// tell of releases, see [Watcher]; such a release, and any by this manager,
// wakes it earlier. Of several Acquires of one resource in one manager only one
// looks. Among waiters no order is promised.
//
// It does not wait for a lease of the same owner, which by default is every lease
// of this manager: it is granted a newer epoch, and that lease ends at once, with
// a cause that matches [ErrLost] and [ErrEpochMismatch]. Goroutines that shall
// exclude each other give [NewManager] the option [OnReentry]([ReentryRefuse]).
//
// The lease is not renewed until [Lease.KeepAlive]: it lapses after its TTL.
//
// The errors are those of [Manager.TryAcquire], but a *[HeldError] is returned
// only when the wait is over: a spent bound matches [ErrTimeout], and the
// denial that was found last, and the end of ctx matches ctx's error, and the
// denial that was found last.
func (m *Manager) Acquire(ctx context.Context, resource string, opts ...Option) (*Lease, error) {
	set, err := m.settings(opts)
	if err != nil {
		return nil, err
	}
	me := m.waiters.join(set.kind(resource))
	woken := false // and did not try since
	defer func() {
		if offer := m.waiters.leave(me, woken); offer != nil {
			m.giveBack(offer)
		}
	}()

	start := time.Now()
	poll := firstPoll
	var denial error
	var denied time.Time
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
			set.report.acquired(l.token, time.Since(start))
			return l, nil
		case ctx.Err() != nil:
			return nil, join(err, denial)
		case errors.Is(err, ErrNotAcquirable), errors.Is(err, ErrBlocked):
			woken = false
			denial, denied = err, time.Now()
			set.report.denied(resource, err)
		default:
			return nil, err
		}
		if m.waiters.watch(me) {
			continue
		}

		for again := false; !again; {
			left := forever
			if set.bounded {
				if left = set.bound - time.Since(start); left <= 0 {
					return nil, spent(set.bound, denial)
				}
			}
			timer := time.NewTimer(min(left, m.pause(me, &poll, denial, denied)))
			select {
			case <-timer.C:
				// Only who is the first looks again; the others' time is up.
				again, _ = m.waiters.place(me)
				again = again || set.bounded && time.Since(start) >= set.bound
			case <-me.first:
			case <-me.woken:
				if l := m.waiters.take(me); l != nil {
					timer.Stop()
					l.adopt(set)
					set.report.acquired(l.token, time.Since(start))
					return l, nil
				}
				again, woken = true, true
			case <-m.closing:
				again = true
			case <-ctx.Done():
				again = true
			}
			timer.Stop()
		}
	}
}

// forever is a pause that something else ends.
const forever = time.Hour

// pause returns how long a waiter sleeps.
func (m *Manager) pause(me *waiter, poll *time.Duration, denial error, denied time.Time) time.Duration {
	first, told := m.waiters.place(me)
	if !first {
		return forever
	}
	longest := lastPoll
	if told {
		longest, *poll = toldPoll, toldPoll
	}
	pause := *poll/2 + rand.N(*poll/2)
	*poll = min(2**poll, longest)
	var held *HeldError
	if errors.As(denial, &held) {
		if left := held.Remaining - time.Since(denied); left < pause {
			// Not before the expiry, and not all at once after it.
			pause = max(left, 0) + rand.N(firstPoll/4)
		}
	}
	return pause
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
