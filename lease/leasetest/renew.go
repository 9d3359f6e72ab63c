package leasetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

var renewClauses = []clause{
	{"a renewal moves the expiry and keeps epoch, grant and mark", func(t *testing.T, s *suite) {
		resource := s.resource()
		req := ask(resource, "a")
		req.TTL = long / 2
		g := s.acquire(t, req)
		expiry := s.mustRenew(t, claim(g, "a"))
		if moved := expiry.Sub(g.Expiry); moved < long/2-tolerance {
			t.Errorf("the expiry moved by %v, want %v or more", moved, long/2)
		}
		state := s.inspect(t, resource)
		if state.Status != lease.Held || state.Owner != "a" || state.Epoch != g.Token.Epoch || state.HighWater != g.Token.Epoch {
			t.Errorf("state %+v, want held by a, epoch and mark %d", state, g.Token.Epoch)
		}
		if !state.Expiry.Equal(expiry) {
			t.Errorf("expiry %v in the state, %v in the answer", state.Expiry, expiry)
		}
		s.mustRenew(t, claim(g, "a")) // the grant is the same
	}},
	{"two renewals at once are no loss (CASES D29)", func(t *testing.T, s *suite) {
		a := s.take(t, s.resource(), "a")
		for range 5 {
			s.mustRenew(t, a)
		}
	}},
	{"a renewal by anybody but the holder is refused, and expiry and epoch stay (CASES D7)", func(t *testing.T, s *suite) {
		refuseOthers(t, s, func(t *testing.T, c lease.Claim) error {
			_, err := s.renew(t.Context(), t, c)
			return err
		})
	}},
	{"a late renewal is refused, also if nobody has taken over (CASES D5)", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		s.lapse(t, resource)
		before := s.inspect(t, resource)
		_, err := s.renew(t.Context(), t, a)
		wantLoss(t, "late Renew", err, lease.ErrLapsed, a, before)
		s.unchanged(t, before)
	}},
	{"refusals come in order: owner, lapse, epoch and grant", func(t *testing.T, s *suite) {
		refuseInOrder(t, s, func(t *testing.T, c lease.Claim) error {
			_, err := s.renew(t.Context(), t, c)
			return err
		})
	}},
	{"a batch is answered in the order of its claims, each on its own", func(t *testing.T, s *suite) {
		type want struct {
			cause error
			found lease.State
		}
		claims := make([]lease.Claim, 20)
		wants := make([]want, len(claims))
		resources := make([]string, len(claims))
		for i := range resources {
			resources[i] = s.resource()
		}
		// Those that lapse come first: Config.Lapse may set the clock forward,
		// and the others' leases would lapse too.
		for i := 2; i < len(claims); i += 4 {
			claims[i], wants[i].cause = s.take(t, resources[i], "a"), lease.ErrLapsed
			s.lapse(t, resources[i])
		}
		for i := range claims {
			switch i % 4 {
			case 0:
				claims[i] = s.take(t, resources[i], "a")
			case 1:
				claims[i], wants[i].cause = s.take(t, resources[i], "a"), lease.ErrNotOwner
				claims[i].Owner = "b"
			case 3:
				claims[i], wants[i].cause = s.take(t, resources[i], "a"), lease.ErrEpochMismatch
				claims[i].Token.Epoch++
			}
			wants[i].found = s.inspect(t, resources[i])
		}
		// Not in the order of their names.
		slices.Reverse(claims)
		slices.Reverse(wants)
		renewed, err := s.store.Renew(t.Context(), claims)
		if err != nil || len(renewed) != len(claims) {
			t.Fatalf("Renew of %d claims: %d results, error %v", len(claims), len(renewed), err)
		}
		for i, r := range renewed {
			what := fmt.Sprintf("claim %d of the batch, %v by %q", i, claims[i].Token, claims[i].Owner)
			if wants[i].cause != nil {
				wantLoss(t, what, r.Err, wants[i].cause, claims[i], wants[i].found)
				s.unchanged(t, wants[i].found)
				continue
			}
			if r.Err != nil {
				t.Errorf("%s: %v, want success", what, r.Err)
			} else if state := s.inspect(t, claims[i].Token.Resource); !state.Expiry.Equal(r.Expiry) {
				t.Errorf("%s: expiry %v in the state, %v in the answer", what, state.Expiry, r.Expiry)
			}
		}
	}},
	{"each claim of a batch has a TTL of its own", func(t *testing.T, s *suite) {
		short, far := s.take(t, s.resource(), "a"), s.take(t, s.resource(), "a")
		short.TTL, far.TTL = long, 3*long
		renewed, err := s.store.Renew(t.Context(), []lease.Claim{far, short})
		if err != nil || len(renewed) != 2 || renewed[0].Err != nil || renewed[1].Err != nil {
			t.Fatalf("Renew: %+v, error %v, want success", renewed, err)
		}
		if d := renewed[0].Expiry.Sub(renewed[1].Expiry); (d - 2*long).Abs() > tolerance {
			t.Errorf("expiries %v apart, want %v", d, 2*long)
		}
	}},
	{"an empty batch has an empty answer", func(t *testing.T, s *suite) {
		renewed, err := s.store.Renew(t.Context(), nil)
		if err != nil || len(renewed) != 0 {
			t.Errorf("Renew of nothing: %d results, error %v", len(renewed), err)
		}
	}},
}

// refuseOthers checks that op refuses whoever does not hold the lease.
func refuseOthers(t *testing.T, s *suite, op func(*testing.T, lease.Claim) error) {
	resource := s.resource()
	older := s.take(t, resource, "a")
	s.lapse(t, resource)
	former := s.take(t, resource, "b")
	s.lapse(t, resource)
	a := s.take(t, resource, "a")
	before := s.inspect(t, resource)
	with := func(change func(*lease.Claim)) lease.Claim {
		c := a
		change(&c)
		return c
	}
	for _, c := range []struct {
		what  string
		claim lease.Claim
		cause error
	}{
		{"the former owner with its own token", former, lease.ErrNotOwner},
		{"another owner with the holder's token", with(func(c *lease.Claim) { c.Owner = "b" }), lease.ErrNotOwner},
		{"the holder's name in another case", with(func(c *lease.Claim) { c.Owner = "A" }), lease.ErrNotOwner},
		{"the holder's name with a blank", with(func(c *lease.Claim) { c.Owner = "a " }), lease.ErrNotOwner},
		{"the holder with an older token", older, lease.ErrEpochMismatch},
		{"the holder with a greater epoch", with(func(c *lease.Claim) { c.Token.Epoch++ }), lease.ErrEpochMismatch},
		{"the holder with another grant", with(func(c *lease.Claim) { c.Token.Grant ^= 1 }), lease.ErrEpochMismatch},
		{"the holder with a grant from elsewhere", with(func(c *lease.Claim) { c.Token.Grant = 0 }), lease.ErrEpochMismatch},
	} {
		wantLoss(t, c.what, op(t, c.claim), c.cause, c.claim, before)
		s.unchanged(t, before)
	}
	for what, c := range map[string]lease.Claim{
		"nobody, with the holder's token": with(func(c *lease.Claim) { c.Owner = "" }),
		"the holder with epoch 0":         with(func(c *lease.Claim) { c.Token.Epoch = 0 }),
		"the holder with epoch -1":        with(func(c *lease.Claim) { c.Token.Epoch = -1 }),
	} {
		wantIs(t, what, op(t, c), lease.ErrInvalidInput)
		s.unchanged(t, before)
	}
	s.mustRenew(t, a) // the control: the holder itself
}

// refuseInOrder checks which of several reasons op gives.
func refuseInOrder(t *testing.T, s *suite, op func(*testing.T, lease.Claim) error) {
	stranger := func(c lease.Claim) lease.Claim { c.Owner = "b"; return c }
	forged := func(c lease.Claim) lease.Claim { c.Token.Epoch++; c.Token.Grant ^= 1; return c }

	unknown := lease.Claim{Token: s.take(t, s.resource(), "a").Token, Owner: "a", TTL: long}
	unknown.Token.Resource = s.resource()
	none := lease.State{Resource: unknown.Token.Resource}
	wantLoss(t, "unknown resource", op(t, unknown), lease.ErrNotOwner, unknown, none)
	s.unchanged(t, none)

	resource := s.resource()
	a := s.take(t, resource, "a")
	held := s.inspect(t, resource)
	both := forged(stranger(a))
	wantLoss(t, "another owner and another token", op(t, both), lease.ErrNotOwner, both, held)
	wantLoss(t, "another token", op(t, forged(a)), lease.ErrEpochMismatch, forged(a), held)
	s.unchanged(t, held)

	s.lapse(t, resource)
	lapsed := s.inspect(t, resource)
	wantLoss(t, "another owner of a lapsed lease", op(t, stranger(a)), lease.ErrNotOwner, stranger(a), lapsed)
	wantLoss(t, "another token of a lapsed lease", op(t, forged(a)), lease.ErrLapsed, forged(a), lapsed)
	wantLoss(t, "a lapsed lease", op(t, a), lease.ErrLapsed, a, lapsed)
	s.unchanged(t, lapsed)

	c := s.take(t, resource, "c")
	s.mustRelease(t, c)
	free := s.inspect(t, resource)
	wantLoss(t, "a free resource", op(t, c), lease.ErrNotOwner, c, free)
	s.unchanged(t, free)
}

var ttlClauses = []clause{
	{"a TTL below 1 ms or above 10 years is invalid, and grants nothing (CASES D14)", func(t *testing.T, s *suite) {
		resource, held := s.resource(), s.resource()
		a := s.take(t, held, "a")
		before := s.inspect(t, held)
		for _, ttl := range []time.Duration{
			0, -time.Second, time.Nanosecond, 999 * time.Microsecond, lease.MaxTTL + 1, 1<<63 - 1, -1 << 63,
		} {
			req := ask(resource, "a")
			req.TTL = ttl
			_, err := s.store.Acquire(t.Context(), req)
			wantIs(t, fmt.Sprintf("Acquire with TTL %v", ttl), err, lease.ErrInvalidInput)
			a.TTL = ttl
			_, err = s.renew(t.Context(), t, a)
			wantIs(t, fmt.Sprintf("Renew with TTL %v", ttl), err, lease.ErrInvalidInput)
		}
		s.unchanged(t, lease.State{Resource: resource})
		s.unchanged(t, before)
	}},
	{"the bounds themselves are valid", func(t *testing.T, s *suite) {
		for _, ttl := range []time.Duration{lease.MinTTL, lease.MaxTTL} {
			req := ask(s.resource(), "a")
			req.TTL = ttl
			s.acquire(t, req)
			a := s.take(t, s.resource(), "a")
			a.TTL = ttl
			s.mustRenew(t, a)
		}
	}},
	{"the TTL is honoured from the grant and from the renewal, by the store's clock", func(t *testing.T, s *suite) {
		for _, ttl := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, time.Hour, lease.MaxTTL} {
			within := func(what string, expiry, before, after time.Time) {
				t.Helper()
				if expiry.Before(before.Add(ttl-tolerance)) || expiry.After(after.Add(ttl+tolerance)) {
					t.Errorf("%s with TTL %v between %v and %v: expiry %v", what, ttl, before, after, expiry)
				}
			}
			req := ask(s.resource(), "a")
			req.TTL = ttl
			before := s.now(t)
			g := s.acquire(t, req)
			within("Acquire", g.Expiry, before, s.now(t))
			if (g.TTL - ttl).Abs() > tolerance {
				t.Errorf("Acquire with TTL %v: %v left at the grant", ttl, g.TTL)
			}

			a := s.take(t, s.resource(), "a")
			a.TTL = ttl
			before = s.now(t)
			expiry := s.mustRenew(t, a)
			within("Renew", expiry, before, s.now(t))
		}
	}},
	{"instants are in UTC", func(t *testing.T, s *suite) {
		resource := s.resource()
		g := s.acquire(t, ask(resource, "a"))
		expiry := s.mustRenew(t, claim(g, "a"))
		for what, instant := range map[string]time.Time{
			"the grant": g.Expiry, "the renewal": expiry, "the state": s.inspect(t, resource).Expiry,
		} {
			if instant.Location() != time.UTC {
				t.Errorf("expiry of %s in %v, want UTC", what, instant.Location())
			}
		}
	}},
}
