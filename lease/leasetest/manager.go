package leasetest

import (
	"context"
	"errors"
	"testing"
	"time"

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
	{"the end of the context that acquired does not end the lease, and one that has ended still releases (CASES D8, D9)", func(t *testing.T, s *suite) {
		resource := s.resource()
		m, err := lease.NewManager(s.store, lease.TTL(long))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		ctx, cancel := context.WithCancel(t.Context())
		l, err := m.Acquire(ctx, resource)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		cancel()
		if err := l.Renew(t.Context()); err != nil {
			t.Errorf("Renew: %v", err)
		}
		if state := s.inspect(t, resource); state.Status != lease.Held || state.Epoch != l.Token().Epoch {
			t.Errorf("state %+v, want held under epoch %d", state, l.Token().Epoch)
		}
		for range 2 { // the second does nothing
			if err := l.Release(ctx); err != nil {
				t.Errorf("Release: %v", err)
			}
		}
		if state := s.inspect(t, resource); state.Status != lease.Free || state.Epoch != l.Token().Epoch+1 {
			t.Errorf("state %+v after the release, want free, epoch %d", state, l.Token().Epoch+1)
		}
	}},
	{"a loss ends the context of Hold with its cause, and is returned (CASES D4)", func(t *testing.T, s *suite) {
		resource := s.resource()
		m, err := lease.NewManager(s.store, lease.TTL(long))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var b lease.Claim
		err = m.Hold(t.Context(), resource, func(context.Context) error {
			s.lapse(t, resource)
			b = s.take(t, resource, "b")
			return nil // the renewal in the background would find out a third of the TTL later
		})
		wantIs(t, "Hold", err, lease.ErrLost, lease.ErrNotOwner)
		s.mustRenew(t, b)

		l, err := m.Acquire(t.Context(), s.resource())
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		ctx := l.KeepAlive(t.Context())
		s.lapse(t, l.Resource())
		b = s.take(t, l.Resource(), "b")
		wantIs(t, "Renew", l.Renew(t.Context()), lease.ErrLost, lease.ErrNotOwner)
		select {
		case <-ctx.Done():
		case <-time.After(patience):
			t.Fatal("the context of KeepAlive goes on after the loss")
		}
		wantIs(t, "the cause", context.Cause(ctx), lease.ErrLost, lease.ErrNotOwner)
		s.mustRenew(t, b)
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
