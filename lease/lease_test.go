package lease_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
)

// CASES D8: the time to acquire is not the lifetime of the lease.
func TestLeaseOutlivesTheContextThatAcquiredIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		l, err := m.Acquire(ctx, "r")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		kept := l.KeepAlive(t.Context())
		time.Sleep(3 * 9 * time.Second)
		if kept.Err() != nil {
			t.Errorf("after 3 TTLs: %v", context.Cause(kept))
		}
		wantState(t, store, "r", lease.Held, "a")
		if n := len(store.requests()); n < 8 {
			t.Errorf("%d renewals in 3 TTLs, want 8 or 9", n)
		}
	})
}

// CASES D5: a late renewal is a loss, also if nobody has taken over.
func TestLateRenewalIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		m := manager(t, store, lease.TTL(2*time.Second), lease.Owner("a"))
		l := take(t, m, "r")
		expiry := l.Expiry()
		time.Sleep(3 * time.Second)
		if !l.Expired(time.Now()) {
			t.Error("3s into a TTL of 2s, and Expired reports false")
		}
		wantIs(t, "late Renew", l.Renew(t.Context()), lease.ErrLost, lease.ErrLapsed)
		wantState(t, store, "r", lease.Lapsed, "a")
		if !l.Expiry().Equal(expiry) {
			t.Errorf("expiry %v after a refused renewal, want %v", l.Expiry(), expiry)
		}
		wantIs(t, "Release", l.Release(t.Context()), lease.ErrLapsed)
		if again := take(t, m, "r"); again.Token().Epoch <= l.Token().Epoch {
			t.Errorf("token %v after %v, want a greater one", again.Token(), l.Token())
		}
	})
}

func TestRenewByHandMovesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, memory.New(), lease.TTL(10*time.Second))
		l := take(t, m, "r")
		for range 5 {
			time.Sleep(9 * time.Second)
			if l.Expired(time.Now()) {
				t.Fatal("expired 9s into a TTL of 10s")
			}
			if err := l.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := time.Until(l.Deadline()); left != 10*time.Second {
				t.Errorf("deadline in %v, want 10s", left)
			}
			if left := time.Until(l.Expiry()); left != 10*time.Second {
				t.Errorf("expiry in %v, want 10s", left)
			}
		}
		time.Sleep(10 * time.Second)
		if !l.Expired(time.Now()) {
			t.Error("not expired at the deadline")
		}
	})
}

func TestAnswersOutOfOrderDoNotMoveTheDeadlineBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			renewed, err := store.Store.Renew(ctx, claims)
			if len(store.requests()) == 1 {
				time.Sleep(5 * time.Second)
			}
			return renewed, err
		}
		l := take(t, manager(t, store, lease.TTL(10*time.Second)), "r")
		var end sync.WaitGroup
		end.Go(func() {
			if err := l.Renew(t.Context()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		if err := l.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		deadline, expiry := l.Deadline(), l.Expiry()
		end.Wait()
		if !l.Deadline().Equal(deadline) || !l.Expiry().Equal(expiry) {
			t.Errorf("deadline %v, expiry %v after a late answer to an earlier request; want %v, %v",
				l.Deadline(), l.Expiry(), deadline, expiry)
		}
	})
}

func TestFailedRenewalIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		down := true
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			if down {
				return nil, errDown
			}
			return store.Store.Renew(ctx, claims)
		}
		m := manager(t, store)
		l := take(t, m, "r")
		deadline := l.Deadline()
		time.Sleep(time.Second)
		err := l.Renew(t.Context())
		wantIs(t, "Renew", err, errDown)
		if !l.Deadline().Equal(deadline) || l.Expired(time.Now()) {
			t.Errorf("after a failed renewal: deadline %v, want %v; expired %v", l.Deadline(), deadline, l.Expired(time.Now()))
		}
		down = false
		if err := l.Renew(t.Context()); err != nil {
			t.Errorf("Renew after the recovery: %v", err)
		}
	})
}

// CASES D9: a shutdown cancels the root context, then releases.
func TestReleaseUnderACancelledContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		m := manager(t, store, lease.TTL(time.Hour))
		l := take(t, m, "r")
		ctx, cancel := context.WithCancel(t.Context())
		kept := l.KeepAlive(ctx)
		cancel()
		<-kept.Done()
		for range 3 {
			if err := l.Release(ctx); err != nil {
				t.Errorf("Release: %v", err)
			}
		}
		wantState(t, store, "r", lease.Free, "")
		start := time.Now()
		take(t, manager(t, store), "r")
		wantAfter(t, "the next owner", start, 0, 0)
	})
}

func TestReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var down atomic.Bool
		down.Store(true)
		store.release = func(ctx context.Context, c lease.Claim, wait time.Duration) error {
			if down.Load() {
				return hang(ctx)
			}
			return store.Store.Release(ctx, c, wait)
		}
		m := manager(t, store, lease.TTL(time.Hour), lease.Owner("a"))
		l := take(t, m, "r")
		kept := l.KeepAlive(t.Context())
		start := time.Now()
		wantIs(t, "Release", l.Release(t.Context()), context.DeadlineExceeded)
		wantAfter(t, "Release", start, 0, 5*time.Second)
		wantIs(t, "cause", context.Cause(kept), lease.ErrLost)
		wantIs(t, "Renew after Release", l.Renew(t.Context()), lease.ErrLost)
		wantState(t, store, "r", lease.Held, "a")

		// It can be tried again, once the store is back.
		down.Store(false)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release after the recovery: %v", err)
		}
		wantState(t, store, "r", lease.Free, "")
	})
}

func TestReleaseWhoseReplyWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		lost := true
		store.release = func(ctx context.Context, c lease.Claim, wait time.Duration) error {
			err := store.Store.Release(ctx, c, wait)
			if lost {
				lost = false
				return errDown
			}
			return err
		}
		l := take(t, manager(t, store), "r")
		wantIs(t, "Release", l.Release(t.Context()), errDown)
		for range 2 {
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release again: %v, want nil: it is released", err)
			}
		}
	})
}

func TestReleaseBehindOpenTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.release = func(ctx context.Context, c lease.Claim, wait time.Duration) error {
			if wait <= 0 || wait >= 5*time.Second {
				t.Errorf("Release may wait %v in the store, want it shorter than its own bound of 5s", wait)
			}
			time.Sleep(wait)
			return &lease.BlockedError{Resource: c.Token.Resource, Wait: wait}
		}
		l := take(t, manager(t, store), "r")
		wantIs(t, "Release", l.Release(t.Context()), lease.ErrBlocked, lease.ErrTimeout)
		store.release = nil
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release when they are closed: %v", err)
		}
	})
}

// CASES D15: a renewal in flight does not revive what was released.
func TestReleaseDuringARenewal(t *testing.T) {
	for name, heeds := range map[string]bool{
		"the renewal can be stopped": true, "the renewal cannot be stopped": false,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newScript()
				var order []string
				store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
					if heeds {
						defer func() { order = append(order, "renewal stopped") }()
						return nil, hang(ctx)
					}
					time.Sleep(500 * time.Millisecond)
					order = append(order, "renewal arrives")
					return store.Store.Renew(context.Background(), claims)
				}
				store.release = func(ctx context.Context, c lease.Claim, wait time.Duration) error {
					order = append(order, "release")
					return store.Store.Release(ctx, c, wait)
				}
				m := manager(t, store, lease.TTL(9*time.Second))
				l := take(t, m, "r")
				l.KeepAlive(t.Context())
				time.Sleep(3*time.Second + time.Millisecond) // a renewal is in flight
				if len(store.requests()) != 1 {
					t.Fatal("no renewal is in flight")
				}
				if err := l.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
				wantState(t, store, "r", lease.Free, "")
				if len(order) != 2 || order[1] != "release" {
					t.Errorf("order %q, want the renewal to end before the release", order)
				}
				token := take(t, manager(t, store, lease.Owner("b"), lease.TTL(time.Hour)), "r").Token()
				time.Sleep(time.Minute)
				wantState(t, store, "r", lease.Held, "b")
				if mark, _ := m.HighWater(t.Context(), "r"); mark != token.Epoch {
					t.Errorf("mark %d, want the new owner's epoch %d", mark, token.Epoch)
				}
			})
		})
	}
}

func TestReleaseDoesNotStopOthersRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
				t.Error("the request was cancelled, though another lease needs it")
			}
			return store.Store.Renew(ctx, claims)
		}
		m := manager(t, store, lease.TTL(9*time.Second))
		a, b := take(t, m, "a"), take(t, m, "b")
		a.KeepAlive(t.Context())
		kept := b.KeepAlive(t.Context())
		time.Sleep(3*time.Second + time.Millisecond)
		if err := a.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		time.Sleep(20 * time.Second)
		if kept.Err() != nil {
			t.Errorf("the other lease: %v", context.Cause(kept))
		}
		release(t, b)
	})
}

func TestReleaseAfterTheDeadlineFreesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			_, _ = store.Store.Renew(ctx, claims) // they all arrive
			return nil, errDown                   // and no answer comes back
		}
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		l := take(t, m, "r")
		<-l.KeepAlive(t.Context()).Done()
		wantState(t, store, "r", lease.Held, "a")
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		wantState(t, store, "r", lease.Free, "")
	})
}

func TestALeaseIsPrintedInShort(t *testing.T) {
	l := take(t, manager(t, newScript()), "r")
	if got, want := fmt.Sprintf("%v", l), `lease of "r", epoch 1, held`; got != want {
		t.Errorf("%%v prints %q, want %q", got, want)
	}
	release(t, l)
	if got, want := l.String(), `lease of "r", epoch 1, ended`; got != want {
		t.Errorf("after the release: %q, want %q", got, want)
	}
}
