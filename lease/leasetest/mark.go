package leasetest

import (
	"math"
	"testing"

	"github.com/sqlfence/sqlfence/lease"
)

// markClauses are about marks that moved without the lease.
var markClauses = []clause{
	{"the next epoch is above the mark", func(t *testing.T, s *suite) {
		fresh, used := s.resource(), s.resource()
		s.mustRelease(t, s.take(t, used, "a"))
		for _, resource := range []string{fresh, used} {
			s.SetMark(t, s.store, resource, 1000)
			if mark := s.inspect(t, resource).HighWater; mark != 1000 {
				t.Errorf("mark %d, want 1000", mark)
			}
			if c := s.take(t, resource, "a"); c.Token.Epoch != 1001 {
				t.Errorf("epoch %d after mark 1000, want 1001", c.Token.Epoch)
			}
		}
	}},
	{"a lease that the mark has moved past is lost", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.SetMark(t, s.store, resource, a.Token.Epoch+10)
		before := s.inspect(t, resource)
		_, err := s.renew(t.Context(), t, a)
		wantLoss(t, "Renew", err, lease.ErrEpochMismatch, a, before)
		wantLoss(t, "Release", s.release(t.Context(), a), lease.ErrEpochMismatch, a, before)
		s.unchanged(t, before)
	}},
	{"an extension never hands out a token below the mark", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.SetMark(t, s.store, resource, a.Token.Epoch+10)
		req := ask(resource, "a")
		req.Reentry = lease.ReentryExtend
		if again := s.acquire(t, req); again.Token.Epoch <= a.Token.Epoch+10 {
			t.Errorf("token %v, want an epoch above the mark %d", again.Token, a.Token.Epoch+10)
		}
	}},
	{"epochs above 2^53 are exact (CASES D36)", func(t *testing.T, s *suite) {
		for _, mark := range []int64{1 << 53, 201605131024011014} {
			resource := s.resource()
			s.SetMark(t, s.store, resource, mark)
			first := s.take(t, resource, "a")
			second := s.take(t, resource, "a")
			if first.Token.Epoch != mark+1 || second.Token.Epoch != mark+2 {
				t.Errorf("epochs %d and %d after mark %d, want one more each", first.Token.Epoch, second.Token.Epoch, mark)
			}
			s.mustRenew(t, second)
			s.mustRelease(t, second)
		}
	}},
	{"at the last epoch an acquire is refused and nothing wraps", func(t *testing.T, s *suite) {
		resource := s.resource()
		s.SetMark(t, s.store, resource, math.MaxInt64)
		before := s.inspect(t, resource)
		_, err := s.store.Acquire(t.Context(), ask(resource, "a"))
		wantIs(t, "Acquire", err, lease.ErrExhausted)
		s.unchanged(t, before)
	}},
	{"the last epoch itself is granted, kept, and never left", func(t *testing.T, s *suite) {
		resource := s.resource()
		s.SetMark(t, s.store, resource, math.MaxInt64-1)
		a := s.take(t, resource, "a")
		if a.Token.Epoch != math.MaxInt64 {
			t.Fatalf("epoch %d, want the last one", a.Token.Epoch)
		}
		s.mustRenew(t, a)
		before := s.inspect(t, resource)
		wantIs(t, "Release", s.release(t.Context(), a), lease.ErrExhausted)
		_, err := s.store.Acquire(t.Context(), ask(resource, "a"))
		wantIs(t, "Acquire by a again", err, lease.ErrExhausted)
		s.unchanged(t, before)
		s.lapse(t, resource)
		_, err = s.store.Acquire(t.Context(), ask(resource, "b"))
		wantIs(t, "Acquire by b", err, lease.ErrExhausted)
		if state := s.inspect(t, resource); state.HighWater != math.MaxInt64 || state.Epoch != math.MaxInt64 {
			t.Errorf("state %+v, want epoch and mark %d", state, int64(math.MaxInt64))
		}
	}},
}
