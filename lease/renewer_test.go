package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

func TestRenewalEveryThirdOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		l := take(t, m, "r")
		token := l.Token()
		ctx := l.KeepAlive(t.Context())
		time.Sleep(10*9*time.Second + time.Second)
		if err := ctx.Err(); err != nil {
			t.Fatalf("after 10 TTLs: %v", context.Cause(ctx))
		}
		if n := len(store.requests()); n != 30 {
			t.Errorf("%d renewals in 10 TTLs, want 30", n)
		}
		if l.Token() != token || l.Expired(time.Now()) {
			t.Errorf("token %v after %v, expired %v", l.Token(), token, l.Expired(time.Now()))
		}
		wantState(t, store, "r", lease.Held, "a")
		if left := time.Until(l.Deadline()); left != 8*time.Second {
			t.Errorf("deadline in %v, want 8s: the last renewal was a second ago", left)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRenewerLivesWhileLeasesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, newScript())
		a, b := take(t, m, "a"), take(t, m, "b")
		expect := func(want bool, when string) {
			t.Helper()
			synctest.Wait()
			if got := m.Renewing(); got != want {
				t.Errorf("%s: renewing %v, want %v", when, got, want)
			}
		}
		expect(false, "before KeepAlive")
		a.KeepAlive(t.Context())
		scope, end := context.WithCancel(t.Context())
		b.KeepAlive(scope)
		expect(true, "with two leases")
		release(t, a)
		expect(true, "with one lease")
		end()
		expect(false, "after the last scope has ended")
		b.KeepAlive(t.Context())
		expect(true, "with a lease again")
		release(t, b)
		expect(false, "after the last release")
	})
}

func TestLeasesOfAManagerAreRenewedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second))
		const leases = 100
		for i := range leases {
			take(t, m, fmt.Sprintf("r%03d", (i*37)%leases)).KeepAlive(t.Context())
			time.Sleep(25 * time.Millisecond) // spread over almost an interval
		}
		time.Sleep(9 * time.Second) // to fall into step
		before := len(store.requests())
		time.Sleep(9 * time.Second)
		requests := store.requests()[before:]
		if len(requests) != 3 {
			t.Errorf("%d requests in a TTL, want 3", len(requests))
		}
		for _, claims := range requests {
			if len(claims) != leases {
				t.Errorf("a request renews %d leases, want all %d", len(claims), leases)
			}
			if !slices.IsSortedFunc(claims, func(a, b lease.Claim) int {
				return strings.Compare(a.Token.Resource, b.Token.Resource)
			}) {
				t.Error("the claims of a request are not in the order of their resources")
			}
		}
	})
}

func TestLeasesOfDifferentTTLsAreRenewedWhenEachIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store)
		short := take(t, m, "short", lease.TTL(3*time.Second)).KeepAlive(t.Context())
		far := take(t, m, "far", lease.TTL(300*time.Second)).KeepAlive(t.Context())
		time.Sleep(time.Hour)
		if short.Err() != nil || far.Err() != nil {
			t.Fatalf("after an hour: %v, %v", context.Cause(short), context.Cause(far))
		}
		count := make(map[string]int)
		for _, claims := range store.requests() {
			for _, c := range claims {
				count[c.Token.Resource]++
			}
		}
		// The far one comes along once half of its interval has passed.
		if n := count["far"]; n < 36 || n > 72 {
			t.Errorf("the lease of 300s was renewed %d times in an hour, want 36 to 72", n)
		}
		if n := count["short"]; n < 3590 || n > 3600 {
			t.Errorf("the lease of 3s was renewed %d times in an hour, want 3600", n)
		}
	})
}

// CASES D10: a transient failure is no loss.
func TestShortOutageKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var down atomic.Bool
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			if down.Load() {
				return nil, errDown
			}
			return store.Store.Renew(ctx, claims)
		}
		m := manager(t, store, lease.TTL(10*time.Second), lease.Owner("a"))
		l := take(t, m, "r")
		token := l.Token()
		ctx := l.KeepAlive(t.Context())
		time.Sleep(3 * time.Second)
		for range 10 {
			down.Store(true)
			time.Sleep(2 * time.Second)
			down.Store(false)
			time.Sleep(2 * time.Second)
			if ctx.Err() != nil {
				t.Fatalf("after an outage of 2s: %v", context.Cause(ctx))
			}
			// Renewed again soon after, not a whole interval later.
			if left := time.Until(l.Deadline()); left < 6*time.Second {
				t.Errorf("deadline in %v, 2s after an outage", left)
			}
		}
		if l.Token() != token {
			t.Errorf("token %v, want %v", l.Token(), token)
		}
		wantState(t, store, "r", lease.Held, "a")
	})
}

// CASES D10: a long one is, and it is reported while the outage lasts.
func TestLongOutageIsALossAtTheDeadline(t *testing.T) {
	for name, answer := range map[string]func(ctx context.Context, end chan struct{}) error{
		"the store refuses connections":        func(context.Context, chan struct{}) error { return errDown },
		"the store hangs":                      func(ctx context.Context, _ chan struct{}) error { return hang(ctx) },
		"the store hangs and heeds no context": func(_ context.Context, end chan struct{}) error { <-end; return errDown },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newScript()
				end := make(chan struct{})
				var down atomic.Bool
				store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
					if down.Load() {
						return nil, answer(ctx, end)
					}
					return store.Store.Renew(ctx, claims)
				}
				m := manager(t, store, lease.TTL(9*time.Second))
				l := take(t, m, "r")
				ctx := l.KeepAlive(t.Context())
				time.Sleep(7 * time.Second) // renewed after 3s and 6s
				sent := time.Now().Add(-time.Second)
				down.Store(true)
				<-ctx.Done()
				wantAfter(t, "loss since the last successful request", sent, 9*time.Second, 9*time.Second)
				wantIs(t, "cause", context.Cause(ctx), lease.ErrLost)
				if name == "the store refuses connections" {
					wantIs(t, "cause", context.Cause(ctx), errDown)
				}
				if !l.Expired(time.Now()) {
					t.Error("the lease is lost, and Expired reports false")
				}
				wantIs(t, "Renew after the loss", l.Renew(t.Context()), lease.ErrLost)
				close(end)
			})
		})
	}
}

func TestHangingRequestIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, heeds := range []bool{true, false} {
			store := newScript()
			free := make(chan struct{})
			var calls atomic.Int32
			store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
				if calls.Add(1) == 1 {
					if heeds {
						return nil, hang(ctx)
					}
					<-free
					return nil, errDown
				}
				return store.Store.Renew(ctx, claims)
			}
			m := manager(t, store, lease.TTL(9*time.Second))
			l := take(t, m, "r")
			ctx := l.KeepAlive(t.Context())
			time.Sleep(time.Minute)
			if ctx.Err() != nil {
				t.Errorf("one request that hung (heeds its context: %v): %v", heeds, context.Cause(ctx))
			}
			close(free)
			release(t, l)
		}
	})
}

func TestRequestThatHangsForALeaseThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		end := make(chan struct{})
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			if claims[0].Token.Resource == "gone" {
				<-end // heeds no context
				return nil, errDown
			}
			return store.Store.Renew(ctx, claims)
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		gone := take(t, m, "gone")
		gone.KeepAlive(t.Context())
		time.Sleep(4 * time.Second)
		release(t, gone)
		next := take(t, m, "next").KeepAlive(t.Context())
		time.Sleep(time.Minute)
		if next.Err() != nil {
			t.Errorf("the next lease: %v", context.Cause(next))
		}
		close(end)
	})
}

func TestDeadlineCountsFromTheSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var calls atomic.Int32
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			if calls.Add(1) > 1 {
				return nil, errDown
			}
			renewed, err := store.Store.Renew(ctx, claims)
			time.Sleep(2 * time.Second) // the way back is slow
			return renewed, err
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		start := time.Now()
		ctx := take(t, m, "r").KeepAlive(t.Context())
		<-ctx.Done()
		wantAfter(t, "loss", start, 12*time.Second, 12*time.Second) // sent after 3s
	})
}

func TestReplyAfterTheLossRevivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			renewed, err := store.Store.Renew(ctx, claims)
			time.Sleep(20 * time.Second)
			return renewed, err
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		start := time.Now()
		l := take(t, m, "r")
		ctx := l.KeepAlive(t.Context())
		<-ctx.Done()
		wantAfter(t, "loss", start, 9*time.Second, 9*time.Second)
		time.Sleep(time.Minute)
		if !l.Expired(time.Now()) {
			t.Error("a reply after the loss has revived the lease")
		}
		wantIs(t, "Renew", l.Renew(t.Context()), lease.ErrLost)
	})
}

func TestRenewByHandIsToldOfALossMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			renewed, err := store.Store.Renew(ctx, claims)
			time.Sleep(20 * time.Second)
			return renewed, err
		}
		l := take(t, manager(t, store, lease.TTL(9*time.Second)), "r")
		l.KeepAlive(t.Context())
		wantIs(t, "Renew, answered after the loss", l.Renew(t.Context()), lease.ErrLost)
	})
}

func TestLostReplyIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var calls atomic.Int32
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			renewed, err := store.Store.Renew(ctx, claims)
			if calls.Add(1)%2 == 1 {
				return nil, errDown // it was renewed, and we are not told
			}
			return renewed, err
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		l := take(t, m, "r")
		ctx := l.KeepAlive(t.Context())
		time.Sleep(5 * time.Minute)
		if ctx.Err() != nil {
			t.Errorf("every second reply lost: %v", context.Cause(ctx))
		}
	})
}

func TestStuckLeaseDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			if len(claims) == 1 && claims[0].Token.Resource == "stuck" {
				return nil, hang(ctx) // alone, it waits for the row
			}
			renewed, err := store.Store.Renew(ctx, claims)
			for i, c := range claims {
				if c.Token.Resource == "stuck" { // in a batch, the row is skipped
					renewed[i] = lease.Renewed{Err: errors.New("row is locked")}
				}
			}
			return renewed, err
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		start := time.Now()
		stuck := take(t, m, "stuck").KeepAlive(t.Context())
		others := make([]*lease.Lease, 10)
		kept := make([]context.Context, len(others))
		for i := range others {
			others[i] = take(t, m, fmt.Sprint("r", i))
			kept[i] = others[i].KeepAlive(t.Context())
		}
		// The stuck one is retried after 3s, and hangs; the others are due, and
		// renewed, all the same.
		time.Sleep(6*time.Second + time.Millisecond)
		for _, l := range others {
			if left := time.Until(l.Deadline()); left < 8*time.Second {
				t.Errorf("%s: deadline in %v while another hangs, want more than 8s", l.Resource(), left)
			}
		}
		<-stuck.Done()
		wantAfter(t, "loss of the stuck one", start, 9*time.Second, 9*time.Second)
		time.Sleep(time.Minute)
		for i, l := range others {
			if kept[i].Err() != nil {
				t.Errorf("%s: %v", l.Resource(), context.Cause(kept[i]))
			}
		}
		for _, l := range others {
			if left := time.Until(l.Deadline()); left < 6*time.Second {
				t.Errorf("%s: deadline in %v, want 6s or more", l.Resource(), left)
			}
		}
	})
}

func TestHangingRetryIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		end := make(chan struct{})
		var singles atomic.Int32
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			if len(claims) > 1 {
				renewed, err := store.Store.Renew(ctx, claims)
				if singles.Load() == 0 {
					renewed[0] = lease.Renewed{Err: errors.New("row is locked")}
				}
				return renewed, err
			}
			if singles.Add(1) == 1 {
				<-end // heeds no context
				return nil, errDown
			}
			return store.Store.Renew(ctx, claims)
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		a := take(t, m, "a").KeepAlive(t.Context())
		take(t, m, "b").KeepAlive(t.Context())
		time.Sleep(time.Minute)
		if a.Err() != nil {
			t.Errorf("one retry that hung: %v", context.Cause(a))
		}
		if singles.Load() < 2 {
			t.Error("the retry that hung was not followed by another")
		}
		close(end)
	})
}

func TestSkippedLeaseIsRetriedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var skipped time.Time
		var alone int
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			renewed, err := store.Store.Renew(ctx, claims)
			if len(claims) == 1 {
				alone++
				if claims[0].Token.Resource != "b" {
					t.Errorf("%q was renewed alone, want b", claims[0].Token.Resource)
				}
				wantAfter(t, "the retry", skipped, time.Millisecond, time.Second)
			} else if skipped.IsZero() {
				skipped = time.Now()
				renewed[1] = lease.Renewed{Err: errors.New("row is locked")}
			}
			return renewed, err
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		for _, r := range []string{"a", "b", "c"} {
			take(t, m, r).KeepAlive(t.Context())
		}
		time.Sleep(29 * time.Second) // between two renewals: one at the same moment as Close finds fewer leases
		m.Close()
		if alone != 1 {
			t.Errorf("%d renewals alone, want 1, and the batch again after it", alone)
		}
	})
}

func TestManyStuckLeasesTakeFewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var now, most atomic.Int32
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if len(claims) == 1 {
				return nil, hang(ctx)
			}
			renewed := make([]lease.Renewed, len(claims))
			for i := range renewed {
				renewed[i].Err = errors.New("row is locked")
			}
			return renewed, nil
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		start := time.Now()
		var kept []context.Context
		for i := range 50 {
			kept = append(kept, take(t, m, fmt.Sprint("r", i)).KeepAlive(t.Context()))
		}
		for _, ctx := range kept {
			<-ctx.Done()
		}
		wantAfter(t, "the losses", start, 9*time.Second, 9*time.Second)
		if most.Load() > 5 {
			t.Errorf("%d requests at once, want 5 at most", most.Load())
		}
	})
}

func TestStoreThatAnswersTheWrongNumberOfResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.renew = func(context.Context, []lease.Claim) ([]lease.Renewed, error) { return nil, nil }
		m := manager(t, store, lease.TTL(9*time.Second))
		start := time.Now()
		l := take(t, m, "r")
		if err := l.Renew(t.Context()); err == nil {
			t.Error("Renew without a result: success, want an error")
		}
		ctx := l.KeepAlive(t.Context())
		<-ctx.Done()
		wantAfter(t, "loss", start, 9*time.Second, 9*time.Second)
	})
}

// CASES D4: a lease that was taken over stops the worker.
func TestTakeoverEndsTheContextWithinAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		a := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		b := manager(t, store, lease.TTL(9*time.Second), lease.Owner("b"))
		l := take(t, a, "r")
		ctx := l.KeepAlive(t.Context())
		time.Sleep(10 * time.Second)
		store.ahead.Store(int64(time.Minute)) // the store's clock says: lapsed
		start := time.Now()
		taken := take(t, b, "r")
		<-ctx.Done()
		wantAfter(t, "the end of the context", start, 0, 3*time.Second)
		cause := context.Cause(ctx)
		wantIs(t, "cause", cause, lease.ErrLost, lease.ErrNotOwner)
		var loss *lease.LossError
		if !errors.As(cause, &loss) || loss.Holder != "b" || loss.Epoch != taken.Token().Epoch {
			t.Errorf("cause %v, want one that tells of b and epoch %d", cause, taken.Token().Epoch)
		}
		wantIs(t, "Release", l.Release(t.Context()), lease.ErrNotOwner)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("second Release: %v", err)
		}
		wantState(t, store, "r", lease.Held, "b")
	})
}

func TestWallClockJumpForwardIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(30*time.Second))
		var jump atomic.Int64
		m.SetWall(func(wall time.Time) time.Time { return wall.Add(time.Duration(jump.Load())) })
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			if jump.Load() != 0 {
				return nil, hang(ctx) // as after a suspend: the connection is dead
			}
			return store.Store.Renew(ctx, claims)
		}
		l := take(t, m, "r")
		ctx := l.KeepAlive(t.Context())
		time.Sleep(61 * time.Second)        // renewed a second ago
		jump.Store(int64(25 * time.Second)) // less than is left
		time.Sleep(2 * time.Second)
		if ctx.Err() != nil {
			t.Fatalf("25s of a TTL of 30s asleep: %v", context.Cause(ctx))
		}
		jump.Store(int64(time.Hour))
		start := time.Now()
		if !l.Expired(start.Add(time.Hour)) {
			t.Error("the wall clock says that the TTL is over, and Expired reports false")
		}
		<-ctx.Done()
		wantAfter(t, "loss since the wake-up", start, 0, time.Second)
		wantIs(t, "cause", context.Cause(ctx), lease.ErrLost)
	})
}

func TestWallClockStepBackExtendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.renew = func(ctx context.Context, _ []lease.Claim) ([]lease.Renewed, error) { return nil, hang(ctx) }
		m := manager(t, store, lease.TTL(30*time.Second))
		var jump atomic.Int64
		m.SetWall(func(wall time.Time) time.Time { return wall.Add(time.Duration(jump.Load())) })
		start := time.Now()
		ctx := take(t, m, "r").KeepAlive(t.Context())
		time.Sleep(5 * time.Second)
		jump.Store(int64(-time.Hour))
		<-ctx.Done()
		wantAfter(t, "loss", start, 30*time.Second, 30*time.Second)
	})
}

// CASES D15: a holder that is gone is not renewed for ever.
func TestKeepAliveEndsWithItsScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		l := take(t, m, "r")
		scope, end := context.WithCancelCause(t.Context())
		ctx := l.KeepAlive(scope)
		time.Sleep(time.Minute)
		wantState(t, store, "r", lease.Held, "a")
		reason := errors.New("handler returned")
		end(reason)
		if !errors.Is(context.Cause(ctx), reason) {
			t.Errorf("cause %v, want the scope's", context.Cause(ctx))
		}
		time.Sleep(9 * time.Second)
		wantState(t, store, "r", lease.Lapsed, "a")
	})
}

func TestKeepAliveTwiceRenewsUntilBothScopesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		l := take(t, m, "r")
		one, endOne := context.WithCancel(t.Context())
		two, endTwo := context.WithCancel(t.Context())
		l.KeepAlive(one)
		kept := l.KeepAlive(two)
		endOne()
		time.Sleep(time.Minute)
		if kept.Err() != nil {
			t.Errorf("the other scope has ended: %v", context.Cause(kept))
		}
		wantState(t, store, "r", lease.Held, "a")
		endTwo()
		time.Sleep(time.Minute)
		wantState(t, store, "r", lease.Lapsed, "a")
	})
}

func TestKeepAliveCarriesTheTokenAndTheValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		m := manager(t, newScript())
		l := take(t, m, "r")
		other := guard.Token{Resource: "other", Epoch: 3, Grant: 4}
		ctx := l.KeepAlive(guard.With(context.WithValue(t.Context(), key{}, "v"), other))
		if got, want := guard.Tokens(ctx), []guard.Token{other, l.Token()}; !slices.Equal(got, want) {
			t.Errorf("tokens %v, want %v", got, want)
		}
		if ctx.Value(key{}) != "v" {
			t.Error("the values of the scope are lost")
		}
	})
}

func TestKeepAliveOfALeaseThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second))
		released := take(t, m, "released")
		release(t, released)
		if ctx := released.KeepAlive(t.Context()); ctx.Err() == nil {
			t.Error("KeepAlive after Release: the context lives")
		} else {
			wantIs(t, "cause", context.Cause(ctx), lease.ErrLost)
		}

		expired := take(t, m, "expired")
		time.Sleep(9 * time.Second)
		ctx := expired.KeepAlive(t.Context())
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("KeepAlive after the deadline: the context lives")
		}
		wantIs(t, "cause", context.Cause(ctx), lease.ErrLost)
		if n := len(store.requests()); n != 0 {
			t.Errorf("%d renewals of leases that have ended", n)
		}
	})
}

func TestMaxHoldEndsTheRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"), lease.MaxHold(time.Minute))
		start := time.Now()
		l := take(t, m, "r")
		ctx := l.KeepAlive(t.Context())
		<-ctx.Done()
		wantAfter(t, "the end", start, time.Minute, time.Minute)
		wantIs(t, "cause", context.Cause(ctx), lease.ErrLost, lease.ErrMaxHold)
		wantIs(t, "Renew", l.Renew(t.Context()), lease.ErrLost, lease.ErrMaxHold)
		time.Sleep(9 * time.Second)
		wantState(t, store, "r", lease.Lapsed, "a")

		byHand := take(t, m, "by hand", lease.TTL(2*time.Minute))
		time.Sleep(time.Minute)
		wantIs(t, "Renew by hand", byHand.Renew(t.Context()), lease.ErrMaxHold)
	})
}

// The renewer sleeps for up to a second; a lease with less than that is not slept through.
func TestALeaseThatIsDueSoonWakesTheRenewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, newScript())
		take(t, m, "long", lease.TTL(time.Hour)).KeepAlive(t.Context())
		time.Sleep(1100 * time.Millisecond) // it has just looked
		kept := take(t, m, "short", lease.TTL(300*time.Millisecond)).KeepAlive(t.Context())
		time.Sleep(5 * time.Second)
		if err := context.Cause(kept); err != nil {
			t.Errorf("the short lease: %v", err)
		}
	})
}

// Who is told of a loss may be slow: meanwhile the lease is no more renewed.
func TestALeaseThatHasEndedIsNotRenewedWhileItsLossIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		const ttl = 3 * time.Second
		m := manager(t, store, lease.TTL(ttl), lease.WithHooks(lease.Hooks{
			Lost: func(guard.Token, error) { time.Sleep(2 * ttl) },
		}))
		l := take(t, m, "r")
		take(t, m, "other").KeepAlive(t.Context()) // the control
		kept := l.KeepAlive(t.Context())
		// Refused out of turn, so that the renewer goes on.
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			if len(claims) == 1 && claims[0].Token == l.Token() {
				return []lease.Renewed{{Err: &lease.LossError{Op: "renew", Claim: claims[0], Cause: lease.ErrLapsed}}}, nil
			}
			return store.Store.Renew(ctx, claims)
		}
		before := len(store.requests())
		wantIs(t, "Renew", l.Renew(t.Context()), lease.ErrLapsed)
		wantIs(t, "the context's cause", context.Cause(kept), lease.ErrLapsed)
		others := 0
		for _, claims := range store.requests()[before+1:] {
			for _, c := range claims {
				if c.Token == l.Token() {
					t.Errorf("it was renewed after it had ended")
				} else {
					others++
				}
			}
		}
		if others == 0 {
			t.Error("nothing was renewed meanwhile: the test shows nothing")
		}
	})
}
