package leasetest

import (
	"context"
	"errors"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// managerClauses run a lease.Manager on the store.
var managerClauses = []clause{
	{"a manager holds, renews and releases", func(t *testing.T, s *suite) {
		resource := s.resource()
		m, err := lease.NewManager(s.store, lease.TTL(long))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		err = m.Hold(t.Context(), resource, func(ctx context.Context) error {
			state := s.inspect(t, resource)
			tokens := guard.Tokens(ctx)
			if len(tokens) != 1 || tokens[0].Resource != resource || tokens[0].Epoch != state.HighWater {
				t.Errorf("fn's context carries %v, want the token of %q with the mark %d", tokens, resource, state.HighWater)
			}
			if state.Status != lease.Held {
				t.Errorf("state %+v in fn, want held", state)
			}
			return nil
		})
		if err != nil {
			t.Errorf("Hold: %v", err)
		}
		if state := s.inspect(t, resource); state.Status != lease.Free {
			t.Errorf("state %+v after Hold, want free", state)
		}

		l, err := m.Acquire(t.Context(), resource)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		before := l.Expiry()
		if err := l.Renew(t.Context()); err != nil {
			t.Errorf("Renew: %v", err)
		}
		if l.Expiry().Before(before) {
			t.Errorf("expiry %v after %v, want it not earlier", l.Expiry(), before)
		}
		for range 2 {
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
		}
	}},
	{"managers exclude each other", func(t *testing.T, s *suite) {
		resource := s.resource()
		one, err := lease.NewManager(s.store, lease.TTL(long))
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		other, err := lease.NewManager(s.store, lease.TTL(long))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		l, err := one.TryAcquire(t.Context(), resource)
		if err != nil {
			t.Fatalf("TryAcquire: %v", err)
		}
		_, err = other.TryAcquire(t.Context(), resource)
		wantHeld(t, "TryAcquire by the other", err, resource, l.Owner())

		s.lapse(t, resource)
		taken, err := other.TryAcquire(t.Context(), resource)
		if err != nil {
			t.Fatalf("TryAcquire of a lapsed lease: %v", err)
		}
		if err := l.Renew(t.Context()); !errors.Is(err, lease.ErrNotOwner) {
			t.Errorf("Renew by the former owner: %v, want one that matches %q", err, lease.ErrNotOwner)
		}
		if err := taken.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	}},
}
