package leasetest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlfence/sqlfence/lease"
)

// RunRestart checks the clauses about restarts alone. [Run] does so too where
// Config.Restart is given; servers that can be ended are often not those on which
// the rest is quick.
func RunRestart(t *testing.T, c Config) {
	t.Helper()
	if c.New == nil || c.Lapse == nil || c.Restart == nil {
		t.Fatal("leasetest: Config.New, Config.Lapse and Config.Restart are needed")
	}
	s := newSuite(t, c)
	t.Run("restart", func(t *testing.T) { s.check(t, restartClauses) })
}

// restartClauses are about what is there after the server has ended.
var restartClauses = []clause{
	{"a restart keeps owners, epochs, grants, marks and expiries", func(t *testing.T, s *suite) {
		free, lapsed, held := s.resource(), s.resource(), s.resource()
		s.mustRelease(t, s.take(t, free, "a"))
		former := s.take(t, lapsed, "a")
		s.lapse(t, lapsed)
		a := s.take(t, held, "a")
		s.mustRenew(t, a)
		var before []lease.State
		for _, resource := range []string{free, lapsed, held} {
			before = append(before, s.inspect(t, resource))
		}
		s.store = s.Restart(t, s.store)
		for _, was := range before {
			if now := s.inspect(t, was.Resource); !same(was, now) {
				t.Errorf("state after the restart: %+v, want it as before: %+v", now, was)
			}
		}
		_, err := s.store.Acquire(t.Context(), ask(held, "b"))
		wantHeld(t, "Acquire by b", err, held, "a")
		s.mustRenew(t, a) // the grant was kept too
		_, err = s.renew(t.Context(), t, former)
		wantLoss(t, "Renew of the lapsed lease", err, lease.ErrLapsed, former, before[1])
		for _, was := range before[:2] {
			if b := s.take(t, was.Resource, "b"); b.Token.Epoch <= was.Epoch {
				t.Errorf("epoch %d after %d, want a greater one", b.Token.Epoch, was.Epoch)
			}
		}
	}},
	{"no epoch is acknowledged twice, also if the server ends under load", func(t *testing.T, s *suite) {
		resource := s.resource()
		var mu sync.Mutex
		seen := make(map[int64]bool)
		highest := int64(0)
		note := func(epoch int64) {
			mu.Lock()
			defer mu.Unlock()
			if seen[epoch] {
				t.Errorf("epoch %d was acknowledged twice", epoch)
			}
			seen[epoch] = true
			highest = max(highest, epoch)
		}
		const enough = 3 * racers
		var stop atomic.Bool
		var all sync.WaitGroup
		begun := make(chan struct{})
		begin := sync.OnceFunc(func() { close(begun) })
		var grants atomic.Int64
		for range racers {
			all.Go(func() {
				defer begin() // also if there is no server at all
				for !stop.Load() {
					g, err := s.store.Acquire(t.Context(), ask(resource, "a"))
					if err != nil {
						return // the server has ended
					}
					note(g.Token.Epoch)
					if grants.Add(1) == enough {
						begin()
					}
				}
			})
		}
		<-begun
		next := s.Restart(t, s.store)
		stop.Store(true)
		all.Wait()
		s.store = next
		if grants.Load() < enough {
			t.Errorf("only %d grants before the end of the server: the clause is about nothing", grants.Load())
		}
		acknowledged := highest
		c := s.take(t, resource, "a")
		note(c.Token.Epoch)
		if c.Token.Epoch <= acknowledged {
			t.Errorf("epoch %d after the restart, want it above %d", c.Token.Epoch, acknowledged)
		}
		if state := s.inspect(t, resource); state.HighWater != state.Epoch {
			t.Errorf("state after the restart: %+v, want the mark at the epoch", state)
		}
	}},
}
