package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/guard"
)

// kind is what a request is for: two of one kind are as good as each other.
type kind struct {
	resource, owner string
	ttl             time.Duration
	reentry         Reentry
	fence           *registered
}

func (s settings) kind(resource string) kind {
	return kind{resource, s.owner, s.ttl, s.reentry, s.fence}
}

// flight is a request to acquire that is on its way.
type flight struct {
	kind   kind
	cancel context.CancelFunc
	done   chan struct{} // closed when lease and err are there
	lease  *Lease
	err    error

	// Guarded by Manager.mu.
	finished bool
	left     bool        // nobody waits for the answer
	expiry   *time.Timer // cancels a flight that was left
}

// attempt asks the store once and waits for the answer until ctx ends or
// patience is spent. The request runs under a context of its own: a caller who
// leaves must not leave a lease behind, so the answer is awaited in any case. A
// request that was left serves the next caller of its kind, so that callers with
// little patience do not send one each, of which every one that is granted
// late takes the resource from those who wait.
func (m *Manager) attempt(ctx context.Context, set settings, resource string, wait, patience time.Duration) (*Lease, error) {
	req := AcquireRequest{Resource: resource, Owner: set.owner, TTL: set.ttl, Wait: wait, Reentry: set.reentry}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, gaveUp(ctx, resource)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	f, adopted := m.adopt(set.kind(resource)), true
	for {
		if f == nil {
			if f, adopted = m.launch(ctx, set, req), false; f == nil {
				return nil, ErrClosed
			}
		}
		var err error
		select {
		case <-f.done:
			if f.err == nil {
				f.lease.adopt(set)
			} else if adopted && !errors.Is(f.err, ErrNotAcquirable) {
				f = nil // it was bounded by another's patience
				continue
			}
			return f.lease, f.err
		case <-ctx.Done():
			err = gaveUp(ctx, resource)
		case <-m.closing:
			err = ErrClosed
		case <-timer.C:
			err = fmt.Errorf("%w: acquiring %q: no answer from the store in %v", ErrTimeout, resource, patience)
		}
		if m.leave(f) {
			return nil, err
		}
		// The answer came in the same moment.
		<-f.done
		switch {
		case f.lease == nil:
		case m.enter():
			go func() {
				defer m.calls.Done()
				m.unwanted(f)
			}()
		default: // closed
			m.giveBack(f.lease)
		}
		return nil, err
	}
}

// launch sends the request; nil after Close.
func (m *Manager) launch(ctx context.Context, set settings, req AcquireRequest) *flight {
	if !m.enter() {
		return nil
	}
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{kind: set.kind(req.Resource), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer m.calls.Done()
		defer cancel()
		stop := m.evictAfter(callCtx, set, req)
		f.lease, f.err = m.grant(callCtx, set, req)
		stop()
		m.mu.Lock()
		f.finished = true
		left := f.left
		if m.orphans[f.kind] == f {
			delete(m.orphans, f.kind)
		}
		m.mu.Unlock()
		close(f.done)
		if left && f.lease != nil {
			m.unwanted(f)
		}
	}()
	return f
}

// adopt takes over a flight of the kind that was left, if there is one.
func (m *Manager) adopt(k kind) *flight {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.orphans[k]
	if f == nil || m.closed {
		return nil
	}
	delete(m.orphans, k)
	if !f.expiry.Stop() {
		return nil // it is being cancelled
	}
	f.left = false
	return f
}

// leave notes that nobody waits for the flight any more. It reports false if the
// answer is there already.
func (m *Manager) leave(f *flight) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.finished {
		return false
	}
	f.left = true
	f.expiry = time.AfterFunc(grace, f.cancel)
	if m.orphans == nil {
		m.orphans = make(map[kind]*flight)
	}
	if m.orphans[f.kind] == nil {
		m.orphans[f.kind] = f
	}
	return true
}

// unwanted gives a lease to somebody who waits for it, or back.
func (m *Manager) unwanted(f *flight) {
	if !m.waiters.hand(f.kind, f.lease) {
		m.giveBack(f.lease)
	}
}

// giveBack releases a lease that nobody has seen. If that fails, it lapses.
func (m *Manager) giveBack(l *Lease) {
	_ = l.Release(context.Background())
}

// grant makes the request.
func (m *Manager) grant(ctx context.Context, set settings, req AcquireRequest) (*Lease, error) {
	sent := m.now()
	g, err := m.store.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	var l *Lease
	if set.fence == nil {
		l = newLease(m, set, g, sent)
	} else if l, err = m.register(ctx, set, req, g, sent); err != nil {
		return nil, err
	}
	m.grants.add(l)
	// The TTL counts from the grant, but of the grant's time we know only that
	// it was not before the request was sent. If the request had to queue, the
	// lease would reach its caller with little or nothing left (CASES D13b), so
	// it is renewed first.
	if m.now().since(l.granted) > set.ttl/3 {
		if err := l.Renew(ctx); err != nil && l.left(m.now()) <= 0 {
			return nil, errors.Join(
				fmt.Errorf("sqlfence: the grant of %q took longer than its TTL %v: %w", req.Resource, set.ttl, err),
				l.Release(ctx))
		}
	}
	return l, nil
}

// register advances the mark of the fence to the grant. If the mark is above, the
// store has lost its counter, or others write to the fence too: then the store is
// asked for an epoch above it.
func (m *Manager) register(ctx context.Context, set settings, req AcquireRequest, g Granted, sent instant) (*Lease, error) {
	start := sent
	for attempt := 1; ; attempt++ {
		l := newLease(m, set, g, sent)
		waiting, stop := l.whileWaiting(ctx)
		err := set.fence.advance(waiting, g.Token, max(req.Wait-m.now().since(start), 0))
		stop()
		if err == nil {
			return l, nil
		}
		var fenced *guard.FencedError
		if errors.As(err, &fenced) && fenced.HighWater == math.MaxInt64 {
			err = fmt.Errorf("%w: the mark of %q: %w", ErrExhausted, req.Resource, err)
		} else if errors.As(err, &fenced) && attempt < 4 {
			again := req
			again.MinEpoch, again.Reentry = fenced.HighWater+1, ReentryNewEpoch // over our own lease
			sent = m.now()
			if g, err = m.store.Acquire(ctx, again); err == nil {
				continue
			}
			// What was granted first must not stay behind.
		}
		if !errors.Is(err, ErrBlocked) && spentWait(err) {
			err = &BlockedError{Resource: req.Resource, Wait: req.Wait, Err: err}
		}
		// Also where ctx has ended, and the more so.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		released := m.store.Release(back, l.claim(), 0)
		cancel()
		if errors.Is(released, ErrLost) {
			released = nil // it has lapsed
		}
		return nil, errors.Join(fmt.Errorf("sqlfence: the lease of %q was given back, since its fence could not be advanced: %w", req.Resource, err),
			released)
	}
}

// whileWaiting renews a lease that nobody has seen yet until stop is called: the wait
// for its fence may take longer than its TTL. The context ends with the lease.
func (l *Lease) whileWaiting(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(max(l.ttl/3, 1))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := l.Renew(ctx); errors.Is(err, ErrLost) {
				cancel()
			}
		}
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}

// spentWait reports whether a fence of another kind gave up waiting for guarded
// transactions. The text is ours, and no server translates it.
func spentWait(err error) bool { return strings.Contains(err.Error(), "sqlfence: wait bound spent") }

// retire moves the fence's mark past a token that is given back.
func (l *Lease) retire(ctx context.Context) error {
	if l.fence == nil || l.token.Epoch == math.MaxInt64 {
		return nil
	}
	next := guard.Token{Resource: l.token.Resource, Epoch: l.token.Epoch + 1, Grant: 1 + rand.Int64N(math.MaxInt64)}
	err := l.fence.Advance(ctx, next)
	if errors.Is(err, guard.ErrFenced) {
		return nil // it is past it already
	}
	if err != nil {
		return fmt.Errorf("sqlfence: the token of %q was not retired in its fence: %w", l.token.Resource, err)
	}
	return nil
}
