package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

var contextClauses = []clause{
	{"an operation under a context that has ended does nothing", func(t *testing.T, s *suite) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		resource := s.resource()
		_, err := s.store.Acquire(ctx, ask(resource, "a"))
		wantIs(t, "Acquire", err, context.Canceled)
		s.unchanged(t, lease.State{Resource: resource})

		a := s.take(t, resource, "a")
		held := s.inspect(t, resource)
		_, err = s.renew(ctx, t, a)
		wantIs(t, "Renew", err, context.Canceled)
		wantIs(t, "Release", s.release(ctx, a), context.Canceled)
		_, err = s.store.Inspect(ctx, resource)
		wantIs(t, "Inspect", err, context.Canceled)
		s.unchanged(t, held)
		s.mustRenew(t, a)
	}},
	{"an acquire that was given up takes nothing later", func(t *testing.T, s *suite) {
		kept := make(map[string]lease.Claim)
		for range max(s.Rounds/10, 5) {
			resource := s.resource()
			ctx, cancel := context.WithCancel(t.Context())
			var given error
			var grant lease.Granted
			race(func(i int) {
				if i > 0 {
					cancel()
					return
				}
				grant, given = s.store.Acquire(ctx, ask(resource, "a"))
			})
			if given == nil {
				kept[resource] = claim(grant, "a")
				continue
			}
			// Either it took effect before the error was returned, which only a lost
			// answer excuses, or never.
			g, err := s.store.Acquire(t.Context(), ask(resource, "b"))
			if err == nil {
				kept[resource] = claim(g, "b")
			} else {
				wantHeld(t, "Acquire by b", err, resource, "a")
			}
		}
		for resource, c := range kept {
			if state := s.inspect(t, resource); state.Owner != c.Owner || state.Epoch != c.Token.Epoch {
				t.Errorf("state %+v, want it still held by %q under epoch %d", state, c.Owner, c.Token.Epoch)
			}
			s.mustRenew(t, c)
		}
	}},
	{"a token in the context does not guard the store's own writes", func(t *testing.T, s *suite) {
		ctx := guard.With(t.Context(), guard.Token{Resource: s.resource(), Epoch: 1, Grant: 1})
		resource := s.resource()
		g, err := s.store.Acquire(ctx, ask(resource, "a"))
		if err != nil {
			t.Fatalf("Acquire: %v, want success", err)
		}
		c := claim(g, "a")
		if _, err := s.renew(ctx, t, c); err != nil {
			t.Errorf("Renew: %v, want success", err)
		}
		if _, err := s.store.Inspect(ctx, resource); err != nil {
			t.Errorf("Inspect: %v, want success", err)
		}
		if err := s.release(ctx, c); err != nil {
			t.Errorf("Release: %v, want success", err)
		}
	}},
}

// racers is how many race.
const racers = 8

// race runs fn on all racers at once.
func race(fn func(i int)) {
	var start, end sync.WaitGroup
	start.Add(1)
	for i := range racers {
		end.Go(func() {
			start.Wait()
			fn(i)
		})
	}
	start.Done()
	end.Wait()
}

var concurrencyClauses = []clause{
	{"of those who acquire at once, exactly one wins", func(t *testing.T, s *suite) {
		resource := s.resource()
		var last int64
		for round := range s.Rounds {
			var grants [racers]lease.Granted
			var errs [racers]error
			race(func(i int) {
				grants[i], errs[i] = s.store.Acquire(t.Context(), ask(resource, fmt.Sprint("racer ", i)))
			})
			winner := -1
			for i, err := range errs {
				switch {
				case err != nil && !errors.Is(err, lease.ErrNotAcquirable):
					t.Fatalf("round %d: racer %d: %v, want a grant or a denial", round, i, err)
				case err == nil && winner >= 0:
					t.Fatalf("round %d: %v and %v were both granted", round, grants[winner].Token, grants[i].Token)
				case err == nil:
					winner = i
				}
			}
			if winner < 0 {
				t.Fatalf("round %d: nobody was granted a resource that nobody held: %v", round, errs[0])
			}
			epoch := grants[winner].Token.Epoch
			if epoch <= last {
				t.Fatalf("round %d: epoch %d after %d, want a greater one", round, epoch, last)
			}
			last = epoch
			if state := s.inspect(t, resource); state.Owner != fmt.Sprint("racer ", winner) || state.Epoch != epoch {
				t.Fatalf("round %d: state %+v, want the winner, racer %d with epoch %d", round, state, winner, epoch)
			}
			// The first race is for a new resource, then for free and lapsed
			// ones in turn.
			if round%2 == 0 {
				s.mustRelease(t, claim(grants[winner], fmt.Sprint("racer ", winner)))
			} else {
				s.lapse(t, resource)
			}
		}
	}},
	{"first acquires of one new resource: exactly one wins", func(t *testing.T, s *suite) {
		for round := range s.Rounds / 10 {
			resource := s.resource()
			var errs [racers]error
			race(func(i int) {
				_, errs[i] = s.store.Acquire(t.Context(), ask(resource, fmt.Sprint("racer ", i)))
			})
			won := 0
			for i, err := range errs {
				if err == nil {
					won++
				} else if !errors.Is(err, lease.ErrNotAcquirable) {
					t.Fatalf("round %d: racer %d: %v, want a grant or a denial", round, i, err)
				}
			}
			if won != 1 {
				t.Fatalf("round %d: %d grants, want 1", round, won)
			}
		}
	}},
	{"no token is issued twice to one owner that acquires in many places (CASES D37)", func(t *testing.T, s *suite) {
		resource := s.resource()
		var mu sync.Mutex
		seen := make(map[int64]bool)
		race(func(int) {
			for range max(s.Rounds/racers, 1) {
				g, err := s.store.Acquire(t.Context(), ask(resource, "a"))
				if err != nil {
					t.Errorf("Acquire: %v, want a new token", err)
					return
				}
				mu.Lock()
				if seen[g.Token.Epoch] {
					t.Errorf("epoch %d was issued twice", g.Token.Epoch)
				}
				seen[g.Token.Epoch] = true
				mu.Unlock()
			}
		})
	}},
	{"a release is final, whatever renewals are in flight (CASES D15)", func(t *testing.T, s *suite) {
		for round := range s.Rounds / 10 {
			resource := s.resource()
			a := s.take(t, resource, "a")
			race(func(i int) {
				if i == 0 {
					if err := s.release(t.Context(), a); err != nil {
						t.Errorf("Release: %v, want success", err)
					}
					return
				}
				for {
					renewed, err := s.store.Renew(t.Context(), []lease.Claim{a})
					if err == nil && len(renewed) == 1 {
						err = renewed[0].Err
					}
					if errors.Is(err, lease.ErrLost) && !errors.Is(err, lease.ErrNotOwner) {
						t.Errorf("Renew: %v, want ErrNotOwner: a resource that was released is nobody's", err)
					}
					if errors.Is(err, lease.ErrLost) || t.Failed() {
						return
					}
				}
			})
			if state := s.inspect(t, resource); state.Status != lease.Free {
				t.Fatalf("round %d: state %+v after a release, want free", round, state)
			}
		}
	}},
	{"renewals of many leases in opposite orders do not lock each other out", func(t *testing.T, s *suite) {
		claims := make([]lease.Claim, 20)
		for i := range claims {
			claims[i] = s.take(t, s.resource(), "a")
		}
		race(func(i int) {
			mine := make([]lease.Claim, len(claims))
			for k, c := range claims {
				if i%2 == 0 {
					mine[k] = c
				} else {
					mine[len(claims)-1-k] = c
				}
			}
			for range max(s.Rounds/20, 1) {
				renewed, err := s.store.Renew(t.Context(), mine)
				if err != nil {
					t.Errorf("Renew: %v, want results", err)
					return
				}
				for _, r := range renewed {
					// A claim that is skipped because its row is locked is a
					// passing failure.
					if errors.Is(r.Err, lease.ErrLost) {
						t.Errorf("Renew: %v, want no loss", r.Err)
					}
				}
			}
		})
		for _, c := range claims {
			s.mustRenew(t, c)
		}
	}},
}
