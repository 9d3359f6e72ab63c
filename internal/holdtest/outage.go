// Package holdtest has what happens to whoever holds a lease, step by step, the same for
// every store: its server cannot be reached, the program has taken all connections, an
// acquire had to wait.
package holdtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// patience is how long a step may take before the test fails.
const patience = 60 * time.Second

// Line is a store whose server can be cut off.
type Line struct {
	Store        lease.Store
	Cut, Restore func()
}

// Outages checks CASES D10: an outage that ends before the lease does keeps it, under the
// same token; one that does not is a loss, told while the server is still cut off. open
// returns a new line for each.
func Outages(t *testing.T, open func(t *testing.T) Line) {
	t.Run("short", func(t *testing.T) { shortOutage(t, open(t)) })
	t.Run("long", func(t *testing.T) { longOutage(t, open(t)) })
}

// attempt is what a manager tells of a request for renewals.
type attempt struct {
	failed int
	err    error
}

// keep acquires a lease and keeps it alive. Each request for its renewal is told of.
func keep(t *testing.T, store lease.Store, ttl time.Duration) (*lease.Lease, context.Context, <-chan attempt) {
	t.Helper()
	attempts := make(chan attempt, 1000)
	m := manager(t, store, lease.TTL(ttl), lease.WithHooks(lease.Hooks{
		Renewed: func(_, failed int, _ time.Duration, err error) { attempts <- attempt{failed, err} },
	}))
	l, err := m.TryAcquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	return l, l.KeepAlive(t.Context()), attempts
}

func manager(t *testing.T, store lease.Store, opts ...lease.Option) *lease.Manager {
	t.Helper()
	m, err := lease.NewManager(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// next waits for a request that failed, or for one that did not.
func next(t *testing.T, kept context.Context, attempts <-chan attempt, failed bool) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case a := <-attempts:
			if (a.failed > 0) == failed {
				return
			}
		case <-kept.Done():
			t.Fatalf("the lease was lost: %v", context.Cause(kept))
		case <-late:
			t.Fatalf("no renewal with failed = %v within %v", failed, patience)
		}
	}
}

func shortOutage(t *testing.T, line Line) {
	// The first failure is due after a third of it, and told of after two thirds.
	l, kept, attempts := keep(t, line.Store, 12*time.Second)
	token, expiry := l.Token(), l.Expiry()
	line.Cut()
	next(t, kept, attempts, true)
	line.Restore()
	next(t, kept, attempts, false)
	if kept.Err() != nil {
		t.Fatalf("the lease was lost: %v", context.Cause(kept))
	}
	if l.Token() != token {
		t.Errorf("token %v after the outage, expected %v", l.Token(), token)
	}
	state, err := line.Store.Inspect(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if state.Status != lease.Held || state.Epoch != token.Epoch || !state.Expiry.After(expiry) {
		t.Errorf("state %+v after the outage, expected held under epoch %d beyond %v", state, token.Epoch, expiry)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
}

func longOutage(t *testing.T, line Line) {
	l, kept, attempts := keep(t, line.Store, 3*time.Second)
	line.Cut()
	select {
	case <-kept.Done():
	case <-time.After(patience):
		t.Fatalf("the context lives on %v after the server was cut off", patience)
	}
	if now, deadline := time.Now(), l.Deadline(); now.Before(deadline) {
		t.Errorf("the lease was given up at %v, before its deadline %v", now, deadline)
	}
	if cause := context.Cause(kept); !errors.Is(cause, lease.ErrLost) {
		t.Errorf("the cause is %v, expected one that matches ErrLost", cause)
	}
	failed := 0
	for len(attempts) > 0 {
		if a := <-attempts; a.failed > 0 {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no renewal failed: the test is about nothing")
	}

	line.Restore()
	other := manager(t, line.Store, lease.TTL(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	taken, err := other.Acquire(ctx, "job")
	if err != nil {
		t.Fatal(err)
	}
	if taken.Token().Epoch <= l.Token().Epoch {
		t.Errorf("epoch %d after %d", taken.Token().Epoch, l.Token().Epoch)
	}
	if err := taken.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
}
