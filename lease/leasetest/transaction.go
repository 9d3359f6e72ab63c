package leasetest

import (
	"testing"

	"github.com/sqlfence/sqlfence/lease"
)

// transactionClauses are about operations that take part in a transaction of the
// caller's.
var transactionClauses = []clause{
	{"a commit keeps what was acquired in it", func(t *testing.T, s *suite) {
		resource := s.resource()
		c := claim(s.within(t, true, func(in *suite) lease.Granted { return in.acquire(t, ask(resource, "a")) }), "a")
		if state := s.inspect(t, resource); state.Status != lease.Held || state.Owner != "a" || state.Epoch != c.Token.Epoch || state.HighWater != c.Token.Epoch {
			t.Errorf("state %+v, want held by a, epoch and mark %d", state, c.Token.Epoch)
		}
		s.mustRenew(t, c)
		s.mustRelease(t, c)
	}},
	{"a rollback undoes an acquire, and its token is never taken for the next one", func(t *testing.T, s *suite) {
		resource := s.resource()
		s.mustRelease(t, s.take(t, resource, "a"))
		before := s.inspect(t, resource)
		undone := claim(s.within(t, false, func(in *suite) lease.Granted { return in.acquire(t, ask(resource, "a")) }), "a")
		s.unchanged(t, before)
		_, err := s.renew(t.Context(), t, undone)
		wantLoss(t, "Renew", err, lease.ErrNotOwner, undone, before)
		next := s.take(t, resource, "a")
		if next.Token == undone.Token {
			t.Errorf("token %v was granted again", next.Token)
		}
		held := s.inspect(t, resource)
		_, err = s.renew(t.Context(), t, undone)
		wantLoss(t, "Renew after the next acquire", err, lease.ErrEpochMismatch, undone, held)
		wantLoss(t, "Release after the next acquire", s.release(t.Context(), undone), lease.ErrEpochMismatch, undone, held)
		s.mustRenew(t, next)
	}},
	{"a rollback undoes a takeover: the former owner lapsed, and no more", func(t *testing.T, s *suite) {
		resource := s.resource()
		s.take(t, resource, "a")
		s.lapse(t, resource)
		before := s.inspect(t, resource)
		s.within(t, false, func(in *suite) lease.Granted { return in.acquire(t, ask(resource, "b")) })
		s.unchanged(t, before)
	}},
	{"a rollback undoes renewals and releases", func(t *testing.T, s *suite) {
		resource := s.resource()
		req := ask(resource, "a")
		req.TTL = long / 2
		a := claim(s.acquire(t, req), "a")
		before := s.inspect(t, resource)
		s.within(t, false, func(in *suite) lease.Granted { in.mustRenew(t, a); return lease.Granted{} })
		s.unchanged(t, before)
		s.within(t, false, func(in *suite) lease.Granted { in.mustRelease(t, a); return lease.Granted{} })
		s.unchanged(t, before)
		s.mustRenew(t, a)
		s.within(t, true, func(in *suite) lease.Granted { in.mustRelease(t, a); return lease.Granted{} })
		if state := s.inspect(t, resource); state.Status != lease.Free || state.HighWater != a.Token.Epoch+1 {
			t.Errorf("state %+v after a release that was committed, want free, mark %d", state, a.Token.Epoch+1)
		}
	}},
	{"a denial leaves the transaction usable", func(t *testing.T, s *suite) {
		held, other := s.resource(), s.resource()
		a := s.take(t, held, "a")
		before := s.inspect(t, held)
		b := claim(s.within(t, true, func(in *suite) lease.Granted {
			_, err := in.store.Acquire(t.Context(), ask(held, "b"))
			wantHeld(t, "Acquire by b", err, held, "a")
			return in.acquire(t, ask(other, "b"))
		}), "b")
		s.unchanged(t, before)
		s.mustRenew(t, a)
		s.mustRenew(t, b)
	}},
}

// within does something in a transaction, which it then commits or rolls back.
func (s *suite) within(t *testing.T, commits bool, fn func(in *suite) lease.Granted) lease.Granted {
	t.Helper()
	store, commit, rollback := s.Begin(t, s.store)
	end := commit
	if !commits {
		end = rollback
	}
	ended := false
	defer func() {
		if !ended { // fn has failed the test
			_ = rollback()
		}
	}()
	in := *s
	in.store = store
	g := fn(&in)
	s.count = in.count
	ended = true
	if err := end(); err != nil {
		t.Fatalf("the end of the transaction: %v", err)
	}
	return g
}
