package leasetest

import (
	"testing"

	"github.com/sqlfence/sqlfence/lease"
)

var releaseClauses = []clause{
	{"a release frees the resource and moves epoch and mark by one", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.mustRelease(t, a)
		state := s.inspect(t, resource)
		next := a.Token.Epoch + 1
		if state.Status != lease.Free || state.Owner != "" || state.Epoch != next || state.HighWater != next {
			t.Errorf("state %+v, want free, epoch and mark %d", state, next)
		}
		b := s.take(t, resource, "b")
		if b.Token.Epoch <= next {
			t.Errorf("the next epoch is %d, want it above %d", b.Token.Epoch, next)
		}
	}},
	{"a second release is refused, and frees nobody else's lease", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.mustRelease(t, a)
		free := s.inspect(t, resource)
		wantLoss(t, "second Release", s.release(t.Context(), a), lease.ErrNotOwner, a, free)
		s.unchanged(t, free)
		b := s.take(t, resource, "b")
		held := s.inspect(t, resource)
		wantLoss(t, "Release after b acquired", s.release(t.Context(), a), lease.ErrNotOwner, a, held)
		s.unchanged(t, held)
		s.mustRenew(t, b)
	}},
	{"a renewal after the release is refused (CASES D15)", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.mustRelease(t, a)
		free := s.inspect(t, resource)
		_, err := s.renew(t.Context(), t, a)
		wantLoss(t, "Renew after Release", err, lease.ErrNotOwner, a, free)
		s.unchanged(t, free)
	}},
	{"a release by anybody but the holder is refused, and expiry and epoch stay (CASES D7)", func(t *testing.T, s *suite) {
		refuseOthers(t, s, func(t *testing.T, c lease.Claim) error { return s.release(t.Context(), c) })
	}},
	{"a late release is refused, also if nobody has taken over", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.lapse(t, resource)
		before := s.inspect(t, resource)
		wantLoss(t, "late Release", s.release(t.Context(), a), lease.ErrLapsed, a, before)
		s.unchanged(t, before)
	}},
	{"refusals come in order: owner, lapse, epoch and grant", func(t *testing.T, s *suite) {
		refuseInOrder(t, s, func(t *testing.T, c lease.Claim) error { return s.release(t.Context(), c) })
	}},
	{"a release does not look at the TTL", func(t *testing.T, s *suite) {
		a := s.take(t, s.resource(), "a")
		a.TTL = 0
		s.mustRelease(t, a)
	}},
	{"a release without a wait works where nothing is in the way", func(t *testing.T, s *suite) {
		a := s.take(t, s.resource(), "a")
		if err := s.store.Release(t.Context(), a, 0); err != nil {
			t.Errorf("Release: %v, want success", err)
		}
	}},
}

var inspectClauses = []clause{
	{"a resource never seen is free, with epoch and mark 0, and inspecting does not create it", func(t *testing.T, s *suite) {
		resource := s.resource()
		for range 2 {
			if state := s.inspect(t, resource); state != (lease.State{Resource: resource}) {
				t.Errorf("state %+v, want a zero one", state)
			}
		}
	}},
	{"a held resource tells owner, epoch, mark, expiry and what remains", func(t *testing.T, s *suite) {
		resource := s.resource()
		g := s.acquire(t, ask(resource, "a"))
		state := s.inspect(t, resource)
		if state.Remaining <= 0 || state.Remaining > long {
			t.Errorf("remaining %v, want more than 0, up to %v", state.Remaining, long)
		}
		state.Remaining = 0
		want := lease.State{
			Resource: resource, Status: lease.Held, Owner: "a",
			Epoch: g.Token.Epoch, HighWater: g.Token.Epoch, Expiry: g.Expiry,
		}
		if !same(state, want) {
			t.Errorf("state %+v, want %+v", state, want)
		}
	}},
	{"a lapsed lease tells its last owner, and that nothing remains", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.lapse(t, resource)
		state := s.inspect(t, resource)
		if state.Owner != "a" || state.Epoch != a.Token.Epoch || state.HighWater != a.Token.Epoch {
			t.Errorf("state %+v, want the last owner a, epoch and mark %d", state, a.Token.Epoch)
		}
		if state.Remaining != 0 || state.Expiry.IsZero() {
			t.Errorf("state %+v, want an expiry, and 0 remaining", state)
		}
	}},
	{"a free resource tells epoch and mark, and neither owner nor expiry", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.mustRelease(t, a)
		next := a.Token.Epoch + 1
		want := lease.State{Resource: resource, Epoch: next, HighWater: next}
		if state := s.inspect(t, resource); state != want {
			t.Errorf("state %+v, want %+v", state, want)
		}
	}},
}
