// Package holdtest has what happens to whoever holds a lease, step by step, the same for
// every store: its server cannot be reached, the program has taken all connections, an
// acquire had to wait.
package holdtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
)

// patience is how long a step may take before the test fails.
const patience = 60 * time.Second

// Outages checks CASES D10: an outage that ends before the lease does keeps it, under the
// same token; one that does not is a loss, told while the server is still cut off or
// answers nothing. So is it with a release, see CASES D9; and without any outage a lease
// is kept, see [LeaseOutlivesItsAcquire]. open returns a new store, and the proxy between
// it and its server, for each.
func Outages(t *testing.T, open func(t *testing.T) (lease.Store, *testserver.Proxy)) {
	for name, outage := range map[string]func(*testing.T, lease.Store, *testserver.Proxy){
		"short": shortOutage, "long": longOutage, "silence": silence,
		"none": func(t *testing.T, store lease.Store, _ *testserver.Proxy) { LeaseOutlivesItsAcquire(t, store) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait, and each has a resource of its own
			store, proxy := open(t)
			outage(t, store, proxy)
		})
	}
}

// attempt is what a manager tells of a request for renewals.
type attempt struct {
	failed int
	err    error
}

// keep acquires a lease and keeps it alive. Each request for its renewal is told of.
func keep(t *testing.T, store lease.Store, resource string, ttl time.Duration) (*lease.Lease, context.Context, <-chan attempt) {
	t.Helper()
	attempts := make(chan attempt, 1000)
	m := manager(t, store, lease.TTL(ttl), lease.WithHooks(lease.Hooks{
		Renewed: func(_, failed int, _ time.Duration, err error) { attempts <- attempt{failed, err} },
	}))
	l, err := m.TryAcquire(t.Context(), resource)
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

func shortOutage(t *testing.T, store lease.Store, proxy *testserver.Proxy) {
	// The first failure is due after a third of it, and told of after two thirds.
	l, kept, attempts := keep(t, store, "short", 12*time.Second)
	token, expiry := l.Token(), l.Expiry()
	proxy.Cut()
	next(t, kept, attempts, true)
	proxy.Restore()
	next(t, kept, attempts, false)
	if kept.Err() != nil {
		t.Fatalf("the lease was lost: %v", context.Cause(kept))
	}
	if l.Token() != token {
		t.Errorf("token %v after the outage, expected %v", l.Token(), token)
	}
	state, err := store.Inspect(t.Context(), "short")
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

// untilLost waits for the loss, which comes with the deadline.
func untilLost(t *testing.T, l *lease.Lease, kept context.Context) {
	t.Helper()
	select {
	case <-kept.Done():
	case <-time.After(patience):
		t.Fatalf("the context lives on after %v", patience)
	}
	if now, deadline := time.Now(), l.Deadline(); now.Before(deadline) {
		t.Errorf("the lease was given up at %v, before its deadline %v", now, deadline)
	}
	if cause := context.Cause(kept); !errors.Is(cause, lease.ErrLost) {
		t.Errorf("the cause is %v, expected one that matches ErrLost", cause)
	}
}

func longOutage(t *testing.T, store lease.Store, proxy *testserver.Proxy) {
	l, kept, attempts := keep(t, store, "long", 3*time.Second)
	proxy.Cut()
	untilLost(t, l, kept)
	failed := 0
	for len(attempts) > 0 {
		if a := <-attempts; a.failed > 0 {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no renewal failed: the test is about nothing")
	}

	proxy.Restore()
	other := manager(t, store, lease.TTL(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	taken, err := other.Acquire(ctx, "long")
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

// silence: the server takes what it is sent, and answers nothing.
func silence(t *testing.T, store lease.Store, proxy *testserver.Proxy) {
	l, kept, _ := keep(t, store, "silence", 3*time.Second)
	released, err := manager(t, store, lease.TTL(time.Hour)).TryAcquire(t.Context(), "released")
	if err != nil {
		t.Fatal(err)
	}
	proxy.Delay(time.Hour)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	result := make(chan error, 1)
	go func() { result <- released.Release(ended) }()
	untilLost(t, l, kept)
	select {
	case err := <-result:
		if err == nil {
			t.Error("a release that nobody answered has succeeded")
		}
	case <-time.After(patience):
		t.Fatalf("a release has not ended after %v", patience)
	}

	proxy.Cut()
	proxy.Delay(0)
	proxy.Restore()
	// Whether the first one has taken effect: nobody could know.
	if err := released.Release(t.Context()); err != nil && !errors.Is(err, lease.ErrLost) {
		t.Errorf("release after the silence: %v", err)
	}
	state, err := store.Inspect(t.Context(), "released")
	if err != nil {
		t.Fatal(err)
	}
	if state.Status != lease.Free || state.Epoch != released.Token().Epoch+1 {
		t.Errorf("state %+v, expected free with the epoch after %d", state, released.Token().Epoch)
	}
}
