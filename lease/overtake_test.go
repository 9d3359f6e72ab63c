package lease_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
)

// wantOvertaken checks that a context of a lease ended, and why.
func wantOvertaken(t *testing.T, ctx context.Context) {
	t.Helper()
	synctest.Wait()
	if ctx.Err() == nil {
		t.Fatal("the former lease's context lives on, and its manager has granted a newer epoch")
	}
	wantIs(t, "the former lease's cause", context.Cause(ctx), lease.ErrLost, lease.ErrEpochMismatch)
}

// CASES D37: two goroutines of one client. The second takes over, and the first is
// told at once, not at its next renewal.
func TestASecondHoldEndsTheFirstAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(time.Hour))
		start := time.Now()
		running := make(chan struct{})
		var first error
		var both sync.WaitGroup
		both.Go(func() {
			first = m.Hold(t.Context(), "r", func(ctx context.Context) error {
				close(running)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		})
		<-running
		err := m.Hold(t.Context(), "r", func(ctx context.Context) error {
			both.Wait()
			wantAfter(t, "the end of the first", start, 0, 0)
			return ctx.Err()
		})
		if err != nil {
			t.Errorf("the second Hold: %v", err)
		}
		wantIs(t, "the first Hold", first, lease.ErrLost, lease.ErrEpochMismatch)
		synctest.Wait()
		if m.Renewing() || len(store.requests()) != 0 {
			t.Errorf("renewing %v, after %d renewals; want neither", m.Renewing(), len(store.requests()))
		}
		wantState(t, store, "r", lease.Free, "")
	})
}

func TestWithReentryRefuseASecondHoldWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, newScript(), lease.OnReentry(lease.ReentryRefuse))
		working := 0
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				err := m.Hold(t.Context(), "r", func(ctx context.Context) error {
					if working++; working > 1 {
						t.Error("two hold the resource at once")
					}
					time.Sleep(time.Second)
					working--
					return ctx.Err()
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// A renewal that is on its way when the newer grant arrives revives nothing, and is
// not waited for.
func TestOvertakenDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var stopped time.Time
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			_ = hang(ctx)
			stopped = time.Now()
			return []lease.Renewed{{Expiry: time.Now().Add(time.Hour)}}, nil // as if it had passed before
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		l := take(t, m, "r")
		ctx := l.KeepAlive(t.Context())
		time.Sleep(4 * time.Second)
		if n := len(store.requests()); n != 1 {
			t.Fatalf("%d renewals, want 1 in flight", n)
		}
		over := time.Now()
		second := take(t, m, "r")
		wantOvertaken(t, ctx)
		if !stopped.Equal(over) {
			t.Errorf("the renewal was stopped at %v, want %v", stopped, over)
		}
		if !l.Expired(time.Now()) || m.Renewing() {
			t.Errorf("expired %v, renewing %v; want true and false", l.Expired(time.Now()), m.Renewing())
		}
		wantIs(t, "Renew", l.Renew(t.Context()), lease.ErrEpochMismatch)
		wantIs(t, "Release", l.Release(t.Context()), lease.ErrEpochMismatch)
		release(t, second)
	})
}

// Of two requests at once the older grant may be answered last.
func TestAGrantThatIsAnsweredAfterANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		granted, answer := make(chan struct{}), make(chan struct{})
		first := true
		store.acquire = func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
			g, err := store.Store.Acquire(ctx, req)
			if first {
				first = false
				close(granted)
				<-answer
			}
			return g, err
		}
		m := manager(t, store, lease.TTL(time.Hour))
		late := make(chan *lease.Lease)
		go func() { late <- take(t, m, "r") }()
		<-granted
		time.Sleep(time.Millisecond)
		second := take(t, m, "r")
		kept := second.KeepAlive(t.Context())
		close(answer)
		wantOvertaken(t, (<-late).KeepAlive(t.Context()))
		if err := kept.Err(); err != nil {
			t.Errorf("the newer lease: %v", context.Cause(kept))
		}
		release(t, second)
	})
}

// A store that lost its state grants lower epochs: they are the newer ones all the same.
func TestAGrantOfALowerEpochEndsNothingByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second))
		release(t, take(t, m, "r"))
		ctx := take(t, m, "r").KeepAlive(t.Context())
		time.Sleep(time.Second)
		store.Store = memory.New()
		l := take(t, m, "r")
		kept := l.KeepAlive(t.Context())
		synctest.Wait()
		if ctx.Err() != nil || kept.Err() != nil {
			t.Errorf("the former lease: %v; the one that was just granted: %v; want neither ended", context.Cause(ctx), context.Cause(kept))
		}
		<-ctx.Done() // at its next renewal
		if kept.Err() != nil {
			t.Errorf("the lease that the store knows has ended: %v", context.Cause(kept))
		}
		release(t, l)
	})
}

func TestOvertakenWithoutARenewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(time.Hour))
		l := take(t, m, "r")
		take(t, m, "other")
		release(t, take(t, m, "r"))
		if !l.Expired(time.Now()) {
			t.Error("the former lease counts as held")
		}
		wantOvertaken(t, l.KeepAlive(t.Context()))
	})
}

func TestOneOfSeveralIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(time.Hour))
		held := take(t, manager(t, store, lease.TTL(time.Hour)), "b")
		start := time.Now()
		var other sync.WaitGroup
		other.Go(func() {
			time.Sleep(time.Second)
			release(t, take(t, m, "a"))
		})
		_, err := m.AcquireAll(t.Context(), []string{"a", "b"})
		wantAfter(t, "AcquireAll", start, time.Second, time.Second)
		wantIs(t, "AcquireAll", err, lease.ErrLost, lease.ErrEpochMismatch)
		other.Wait()
		release(t, held)

		err = m.HoldAll(t.Context(), []string{"a", "b"}, func(ctx context.Context) error {
			release(t, take(t, m, "a"))
			wantOvertaken(t, ctx)
			return ctx.Err()
		})
		wantIs(t, "HoldAll", err, context.Canceled, lease.ErrLost, lease.ErrEpochMismatch)
		wantState(t, store, "b", lease.Free, "")
	})
}

// Handles that share a token by ReentryExtend end together.
func TestLeasesOfOneTokenAreOvertakenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, newScript(), lease.TTL(time.Hour))
		one := take(t, m, "r").KeepAlive(t.Context())
		two := take(t, m, "r", lease.OnReentry(lease.ReentryExtend)).KeepAlive(t.Context())
		synctest.Wait()
		if one.Err() != nil || two.Err() != nil {
			t.Fatalf("after an extension: %v, %v", context.Cause(one), context.Cause(two))
		}
		release(t, take(t, m, "r"))
		wantOvertaken(t, one)
		wantOvertaken(t, two)
	})
}

// What nobody holds any more is not remembered, whether it was released or not.
func TestForgottenLeasesAreNotRemembered(t *testing.T) {
	m := manager(t, memory.New(), lease.TTL(time.Hour))
	release(t, take(t, m, "released"))
	if n := m.Granted(); n != 0 {
		t.Errorf("%d leases known after the release, want none", n)
	}
	take(t, m, "dropped")
	for start := time.Now(); m.Granted() != 0; {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d leases known, want none", m.Granted())
		}
		runtime.GC()
		runtime.Gosched()
	}
	if _, err := m.TryAcquire(t.Context(), "dropped"); errors.Is(err, lease.ErrNotAcquirable) {
		t.Error(err)
	}
}
