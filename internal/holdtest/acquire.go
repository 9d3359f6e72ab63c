package holdtest

import (
	"context"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// LeaseOutlivesItsAcquire checks CASES D8: the context under which a lease was acquired
// has ended, and the lease is kept for three TTLs more, as the server's expiries tell.
func LeaseOutlivesItsAcquire(t *testing.T, store lease.Store) {
	t.Helper()
	const ttl = 3 * time.Second
	m := manager(t, store, lease.TTL(ttl))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	l, err := m.Acquire(ctx, "outlives")
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	kept := l.KeepAlive(t.Context())
	first, last, renewals := l.Expiry(), l.Expiry(), 0
	for last.Before(first.Add(3 * ttl)) {
		select {
		case <-kept.Done():
			t.Fatalf("the lease was lost after %d renewals: %v", renewals, context.Cause(kept))
		case <-time.After(ttl / 10):
		}
		state, err := store.Inspect(t.Context(), "outlives")
		if err != nil {
			t.Fatal(err)
		}
		if state.Status != lease.Held || state.Epoch != l.Token().Epoch {
			t.Fatalf("state %+v, expected held under epoch %d", state, l.Token().Epoch)
		}
		if state.Expiry.After(last) {
			renewals++
		}
		last = state.Expiry
	}
	// One that moves the expiry by more than the TTL would revive what had lapsed.
	if renewals < 3 {
		t.Errorf("%d renewals moved the expiry from %v to %v", renewals, first, last)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
}
