package redis_test

import (
	"errors"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

// With appendfsync always, a server that is killed comes back with lease, counter
// and mark; without persistence it comes back empty, and every token is refused.
func TestWhatSurvivesARestart(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings []string
		survives bool
	}{
		{"appendfsync always", []string{"appendonly=yes", "appendfsync=always"}, true},
		{"no persistence", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := testserver.PrivateRedis(t, tt.settings...)
			client := open(t, server.DSN)
			s := leaseredis.New(client)
			for range 3 {
				if err := s.Release(t.Context(), claim(mustAcquire(t, s, request("job", "a")), "a"), 0); err != nil {
					t.Fatal(err)
				}
			}
			g := mustAcquire(t, s, request("job", "a"))
			server.Kill(t)
			server.Start(t)
			renewed, err := s.Renew(t.Context(), []lease.Claim{claim(g, "a")})
			if err != nil {
				t.Fatal(err)
			}
			next := mustAcquire(t, s, request("job", "a"))
			if tt.survives {
				if renewed[0].Err != nil || next.Token.Epoch != g.Token.Epoch+1 {
					t.Errorf("after the restart: renewal %v, next epoch %d after %d", renewed[0].Err, next.Token.Epoch, g.Token.Epoch)
				}
				return
			}
			if !errors.Is(renewed[0].Err, lease.ErrNotOwner) {
				t.Errorf("renewal of a lease that was lost: %v", renewed[0].Err)
			}
			// An epoch that was minted before, and another grant: never confused.
			if err := s.Check(t.Context(), g.Token); !errors.Is(err, guard.ErrUnregistered) {
				t.Errorf("the token of before: %v", err)
			}
			if next.Token.Epoch >= g.Token.Epoch || next.Token.Grant == g.Token.Grant {
				t.Errorf("token %v after %v: expected a counter that began again, or the test is about nothing", next.Token, g.Token)
			}
		})
	}
}

// kill -9, with the one setting that loses nothing.
func TestConformanceAcrossRestarts(t *testing.T) {
	server := testserver.PrivateRedis(t, "appendonly=yes", "appendfsync=always")
	client := open(t, server.DSN)
	leasetest.RunRestart(t, leasetest.Config{
		New: func(testing.TB) lease.Store { return leaseredis.New(client) },
		Lapse: func(t testing.TB, s lease.Store, resource string) {
			lapse(t, client, s.(*leaseredis.Store), resource)
		},
		Restart: func(t testing.TB, s lease.Store) lease.Store {
			server.Kill(t)
			server.Start(t)
			return s
		},
	})
}
