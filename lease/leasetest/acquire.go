package leasetest

import (
	"testing"

	"github.com/sqlfence/sqlfence/lease"
)

var acquireClauses = []clause{
	{"a new resource is created and granted", func(t *testing.T, s *suite) {
		resource := s.resource()
		g := s.acquire(t, ask(resource, "a"))
		state := s.inspect(t, resource)
		if state.Status != lease.Held || state.Owner != "a" || state.Epoch != g.Token.Epoch || state.HighWater != g.Token.Epoch {
			t.Errorf("state %+v, want held by a, epoch and mark %d", state, g.Token.Epoch)
		}
		if !state.Expiry.Equal(g.Expiry) {
			t.Errorf("expiry %v in the state, %v in the grant", state.Expiry, g.Expiry)
		}
	}},
	{"a held resource is denied to others, with holder and remaining TTL, and nothing is written", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		before := s.inspect(t, resource)
		for range 3 {
			_, err := s.store.Acquire(t.Context(), ask(resource, "b"))
			wantHeld(t, "Acquire by b", err, resource, "a")
		}
		s.unchanged(t, before)
		s.mustRenew(t, a)
	}},
	{"a denial does not wait for the holder", func(t *testing.T, s *suite) {
		resource := s.resource()
		s.take(t, resource, "a")
		// The TTL is an hour: waiting for it would hang the test.
		req := ask(resource, "b")
		req.Wait = long
		_, err := s.store.Acquire(t.Context(), req)
		wantHeld(t, "Acquire by b", err, resource, "a")
	}},
	{"a lapsed lease is taken over by another owner under a greater epoch", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.lapse(t, resource)
		b := s.take(t, resource, "b")
		if b.Token.Epoch <= a.Token.Epoch {
			t.Errorf("epoch %d after %d, want a greater one", b.Token.Epoch, a.Token.Epoch)
		}
		state := s.inspect(t, resource)
		if state.Status != lease.Held || state.Owner != "b" || state.HighWater != b.Token.Epoch {
			t.Errorf("state %+v, want held by b, mark %d", state, b.Token.Epoch)
		}
		_, err := s.renew(t.Context(), t, a)
		wantLoss(t, "Renew by the former owner", err, lease.ErrNotOwner, a, state)
		wantLoss(t, "Release by the former owner", s.release(t.Context(), a), lease.ErrNotOwner, a, state)
		s.unchanged(t, state)
	}},
	{"a lapsed lease is acquired anew by its own owner under a greater epoch, whatever the policy (CASES D5)", func(t *testing.T, s *suite) {
		for _, policy := range []lease.Reentry{lease.ReentryNewEpoch, lease.ReentryRefuse, lease.ReentryExtend} {
			resource := s.resource()
			a := s.take(t, resource, "a")
			s.lapse(t, resource)
			req := ask(resource, "a")
			req.Reentry = policy
			again := s.acquire(t, req)
			if again.Token.Epoch <= a.Token.Epoch || again.Token.Grant == a.Token.Grant {
				t.Errorf("policy %d: token %v after %v, want a new one", policy, again.Token, a.Token)
			}
		}
	}},
	{"a thousand acquires and releases mint strictly increasing epochs (CASES D6a)", func(t *testing.T, s *suite) {
		resource := s.resource()
		grants := make(map[int64]bool)
		var last int64
		for range 1000 {
			c := s.take(t, resource, "a")
			if c.Token.Epoch <= last {
				t.Fatalf("epoch %d after %d, want a greater one", c.Token.Epoch, last)
			}
			if grants[c.Token.Grant] {
				t.Fatalf("grant %d was minted twice", c.Token.Grant)
			}
			last, grants[c.Token.Grant] = c.Token.Epoch, true
			s.mustRelease(t, c)
		}
	}},
	{"epochs increase across acquire, takeover, release and re-entry", func(t *testing.T, s *suite) {
		resource := s.resource()
		var last int64
		step := func(what string, c lease.Claim) {
			t.Helper()
			if c.Token.Epoch <= last {
				t.Errorf("%s: epoch %d after %d, want a greater one", what, c.Token.Epoch, last)
			}
			last = c.Token.Epoch
			if mark := s.inspect(t, resource).HighWater; mark != last {
				t.Errorf("%s: mark %d, want the epoch %d", what, mark, last)
			}
		}
		step("acquire", s.take(t, resource, "a"))
		step("re-entry", s.take(t, resource, "a"))
		s.lapse(t, resource)
		b := s.take(t, resource, "b")
		step("takeover", b)
		s.mustRelease(t, b)
		if mark := s.inspect(t, resource).HighWater; mark <= last {
			t.Errorf("release: mark %d, want it above %d", mark, last)
		} else {
			last = mark
		}
		step("acquire after release", s.take(t, resource, "a"))
	}},
	{"resources do not share epochs", func(t *testing.T, s *suite) {
		one, other := s.resource(), s.resource()
		for range 3 {
			s.mustRelease(t, s.take(t, one, "a"))
		}
		before := s.inspect(t, one)
		s.take(t, other, "a")
		s.unchanged(t, before)
	}},
	{"a new grant's epoch is not below the least one asked for, also where a token would be kept", func(t *testing.T, s *suite) {
		resource := s.resource()
		req := ask(resource, "a")
		req.MinEpoch = 1 << 60
		if g := s.acquire(t, req); g.Token.Epoch != 1<<60 {
			t.Errorf("epoch %d, want the least one asked for, %d", g.Token.Epoch, int64(1<<60))
		}
		req.MinEpoch = 7 // below what was minted: no bound
		again := s.acquire(t, req)
		if again.Token.Epoch != 1<<60+1 {
			t.Errorf("epoch %d, want %d", again.Token.Epoch, int64(1<<60+1))
		}
		req.Reentry = lease.ReentryExtend
		req.MinEpoch = again.Token.Epoch
		if kept := s.acquire(t, req); kept.Token != again.Token {
			t.Errorf("token %v, want %v kept: its epoch is the least one asked for", kept.Token, again.Token)
		}
		req.MinEpoch += 10
		if g := s.acquire(t, req); g.Token.Epoch != req.MinEpoch {
			t.Errorf("epoch %d, want %d", g.Token.Epoch, req.MinEpoch)
		}
		before := s.inspect(t, resource)
		other := ask(resource, "b")
		other.MinEpoch = before.Epoch + 10
		_, err := s.store.Acquire(t.Context(), other)
		wantHeld(t, "Acquire by b", err, resource, "a")
		s.unchanged(t, before)
	}},
	{"a negative wait or an unknown policy is invalid", func(t *testing.T, s *suite) {
		resource := s.resource()
		req := ask(resource, "a")
		req.Wait = -1
		_, err := s.store.Acquire(t.Context(), req)
		wantIs(t, "Acquire with a negative wait", err, lease.ErrInvalidInput)
		req = ask(resource, "a")
		req.Reentry = lease.ReentryExtend + 1
		_, err = s.store.Acquire(t.Context(), req)
		wantIs(t, "Acquire with an unknown policy", err, lease.ErrInvalidInput)
		req = ask(resource, "a")
		req.MinEpoch = -1
		_, err = s.store.Acquire(t.Context(), req)
		wantIs(t, "Acquire with a negative least epoch", err, lease.ErrInvalidInput)
		s.unchanged(t, lease.State{Resource: resource})
	}},
}

var reentryClauses = []clause{
	{"by default the own name gets a new token, and the old one is refused", func(t *testing.T, s *suite) {
		resource := s.resource()
		old := s.take(t, resource, "a")
		again := s.take(t, resource, "a")
		if again.Token.Epoch <= old.Token.Epoch || again.Token.Grant == old.Token.Grant {
			t.Errorf("token %v after %v, want a greater epoch and another grant", again.Token, old.Token)
		}
		state := s.inspect(t, resource)
		_, err := s.renew(t.Context(), t, old)
		wantLoss(t, "Renew with the old token", err, lease.ErrEpochMismatch, old, state)
		wantLoss(t, "Release with the old token", s.release(t.Context(), old), lease.ErrEpochMismatch, old, state)
		s.unchanged(t, state)
		s.mustRenew(t, again)
	}},
	{"with refusal the own name is denied like any other, and nothing is written", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		before := s.inspect(t, resource)
		req := ask(resource, "a")
		req.Reentry = lease.ReentryRefuse
		_, err := s.store.Acquire(t.Context(), req)
		wantHeld(t, "Acquire by a again", err, resource, "a")
		s.unchanged(t, before)
		s.mustRenew(t, a)
	}},
	{"with extension the own name keeps its token, and the expiry moves", func(t *testing.T, s *suite) {
		resource := s.resource()
		req := ask(resource, "a")
		req.TTL = long / 2
		first := s.acquire(t, req)
		req.TTL, req.Reentry = long, lease.ReentryExtend
		again := s.acquire(t, req)
		if again.Token != first.Token {
			t.Errorf("token %v after %v, want the same", again.Token, first.Token)
		}
		if moved := again.Expiry.Sub(first.Expiry); moved < long/2-tolerance {
			t.Errorf("the expiry moved by %v, want %v or more", moved, long/2)
		}
		state := s.inspect(t, resource)
		if state.Epoch != first.Token.Epoch || state.HighWater != first.Token.Epoch || !state.Expiry.Equal(again.Expiry) {
			t.Errorf("state %+v, want epoch and mark %d, expiry %v", state, first.Token.Epoch, again.Expiry)
		}
		s.mustRenew(t, claim(first, "a"))
	}},
	{"refusal and extension are for the own name: others are denied", func(t *testing.T, s *suite) {
		resource := s.resource()
		s.take(t, resource, "a")
		before := s.inspect(t, resource)
		for _, policy := range []lease.Reentry{lease.ReentryRefuse, lease.ReentryExtend} {
			req := ask(resource, "b")
			req.Reentry = policy
			_, err := s.store.Acquire(t.Context(), req)
			wantHeld(t, "Acquire by b", err, resource, "a")
		}
		s.unchanged(t, before)
	}},
}
