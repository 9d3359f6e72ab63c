package holdtest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// AClientsClockDecidesNothing checks CASES D13 (a) with a client that believes that the
// year is 2000, and that no time passes while it waits for a server: what is granted,
// denied and renewed is so by the server's clock. open opens the store; what it leaves to
// t's cleanup ends with the test's bubble.
func AClientsClockDecidesNothing(t *testing.T, open func(*testing.T) lease.Store) {
	t.Helper()
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		if off := time.Until(now); off < 24*365*time.Hour {
			t.Fatalf("this client's clock is off by %v only", off)
		}
		store := open(t)
		request := lease.AcquireRequest{Resource: "skewed", Owner: "A", TTL: time.Hour}
		rival := lease.AcquireRequest{Resource: "skewed", Owner: "B", TTL: time.Hour}
		g, err := store.Acquire(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		hence := func(what string, expiry time.Time) {
			t.Helper()
			if left := expiry.Sub(now); left < 50*time.Minute || left > 70*time.Minute {
				t.Errorf("%s: the expiry is %v, %v after the test began; expected about an hour", what, expiry, left)
			}
		}
		hence("acquire", g.Expiry)
		var held *lease.HeldError
		if _, err := store.Acquire(ctx, rival); !errors.As(err, &held) || held.Remaining < 50*time.Minute || held.Remaining > time.Hour {
			t.Errorf("B's acquire: %v; expected that A holds it for about an hour", err)
		}
		renew := func(g lease.Granted, ttl time.Duration) lease.Renewed {
			t.Helper()
			renewed, err := store.Renew(ctx, []lease.Claim{{Token: g.Token, Owner: "A", TTL: ttl}})
			if err != nil || len(renewed) != 1 {
				t.Fatalf("renewal: %v, %v", renewed, err)
			}
			return renewed[0]
		}
		r := renew(g, time.Hour)
		if r.Err != nil || r.Expiry.Before(g.Expiry) {
			t.Errorf("renewal: %+v, after an expiry at %v", r, g.Expiry)
		}
		hence("renewal", r.Expiry)
		state, err := store.Inspect(ctx, "skewed")
		if err != nil || state.Status != lease.Held || !state.Expiry.Equal(r.Expiry) || state.Remaining < 50*time.Minute {
			t.Errorf("state %+v (%v), expected held until %v", state, err, r.Expiry)
		}

		// A lease lapses when that is so on the server, and no renewal brings it back.
		last := renew(g, 20*time.Millisecond)
		if last.Err != nil {
			t.Fatalf("renewal: %v", last.Err)
		}
		next, err := store.Acquire(ctx, rival)
		for errors.Is(err, lease.ErrNotAcquirable) {
			next, err = store.Acquire(ctx, rival)
		}
		if err != nil {
			t.Fatalf("B's acquire of what lapses: %v", err)
		}
		if granted := next.Expiry.Add(-time.Hour); granted.Before(last.Expiry) {
			t.Errorf("B was granted it at %v, before it lapsed at %v", granted, last.Expiry)
		}
		if r := renew(g, time.Hour); !errors.Is(r.Err, lease.ErrNotOwner) {
			t.Errorf("A's renewal of what B holds: %+v", r)
		}
		if err := store.Release(ctx, lease.Claim{Token: next.Token, Owner: "B"}, 0); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}
