package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

// The mark in Redis never goes back, and of two grants of one epoch the first has it.
func TestTheMarkNeverGoesBack(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		s := leaseredis.New(open(t, url))
		token := func(epoch, grant int64) guard.Token { return guard.Token{Resource: "r", Epoch: epoch, Grant: grant} }
		set := s.Script(`redis.call('SET', KEYS[1], ARGV[1]); return 'done'`)
		for _, step := range []struct {
			token  guard.Token
			fenced bool
			mark   guard.Token
		}{
			{token(5, 50), false, token(5, 50)},
			{token(5, 50), false, token(5, 50)},
			{token(4, 40), true, token(5, 50)},
			{token(5, 51), true, token(5, 50)},
			{token(9223372036854775806, 7), false, token(9223372036854775806, 7)},
			{token(9007199254740993, 8), true, token(9223372036854775806, 7)}, // apart for a double
		} {
			if err := s.Advance(t.Context(), step.token); errors.Is(err, guard.ErrFenced) != step.fenced || !step.fenced && err != nil {
				t.Errorf("advance to %v: %v, want fenced: %v", step.token, err, step.fenced)
			}
			if state, err := s.Inspect(t.Context(), "r"); err != nil || state.HighWater != step.mark.Epoch {
				t.Errorf("behind %v the mark is %d (%v), want %d", step.token, state.HighWater, err, step.mark.Epoch)
			}
			for _, other := range []guard.Token{token(step.mark.Epoch, step.mark.Grant+1), token(step.mark.Epoch-1, step.mark.Grant)} {
				if err := s.Check(t.Context(), other); !errors.Is(err, guard.ErrFenced) {
					t.Errorf("behind %v, check of %v: %v", step.token, other, err)
				}
				if result, err := set.Run(t.Context(), other, []string{"v"}, "stale"); !errors.Is(err, guard.ErrFenced) {
					t.Errorf("behind %v, a script under %v: %v, %v", step.token, other, result, err)
				}
			}
			if err := s.Check(t.Context(), step.mark); err != nil {
				t.Errorf("behind %v, check of %v: %v", step.token, step.mark, err)
			}
			if result, err := set.Run(t.Context(), step.mark, []string{"v"}, "valid"); err != nil || result != "done" {
				t.Errorf("behind %v, a script under %v: %v, %v", step.token, step.mark, result, err)
			}
		}
	})
}

// G13: what is claimed under another grant of the same epoch is not kept, nor given back.
func TestAClaimUnderAnotherGrantIsNone(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		s := leaseredis.New(open(t, url))
		g, err := s.Acquire(t.Context(), lease.AcquireRequest{Resource: "r", Owner: "A", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		before, err := s.Inspect(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		other := lease.Claim{Owner: "A", Token: g.Token, TTL: 2 * time.Hour}
		other.Token.Grant++
		renewed, err := s.Renew(t.Context(), []lease.Claim{other})
		if err != nil || len(renewed) != 1 || !errors.Is(renewed[0].Err, lease.ErrEpochMismatch) {
			t.Errorf("renewal: %+v, %v", renewed, err)
		}
		if err := s.Release(t.Context(), other, 0); !errors.Is(err, lease.ErrEpochMismatch) {
			t.Errorf("release: %v", err)
		}
		if after, err := s.Inspect(t.Context(), "r"); err != nil || after.Status != lease.Held || !after.Expiry.Equal(before.Expiry) {
			t.Errorf("state %+v (%v), expected it unchanged: %+v", after, err, before)
		}
		if err := s.Release(t.Context(), lease.Claim{Owner: "A", Token: g.Token}, 0); err != nil {
			t.Errorf("the holder's release: %v", err)
		}
	})
}
