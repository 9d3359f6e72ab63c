package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
)

func TestNewManagerRefusesWhatCanNeverBeRight(t *testing.T) {
	if _, err := lease.NewManager(nil); !errors.Is(err, lease.ErrInvalidInput) {
		t.Errorf("no store: %v", err)
	}
	m, err := lease.NewManager(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]lease.Option{
		"TTL 0":                  lease.TTL(0),
		"negative TTL":           lease.TTL(-time.Second),
		"TTL of 999µs":           lease.TTL(999 * time.Microsecond),
		"TTL of 292 years":       lease.TTL(1<<63 - 1),
		"empty owner":            lease.Owner(""),
		"owner of 256 bytes":     lease.Owner(strings.Repeat("x", 256)),
		"owner with NUL":         lease.Owner("a\x00"),
		"negative wait":          lease.Wait(-1),
		"unknown policy":         lease.OnReentry(lease.ReentryExtend + 1),
		"MaxHold 0":              lease.MaxHold(0),
		"negative MaxHold":       lease.MaxHold(-time.Second),
		"owner of invalid UTF-8": lease.Owner("\xff"),
	} {
		if _, err := lease.NewManager(memory.New(), opt); !errors.Is(err, lease.ErrInvalidInput) {
			t.Errorf("NewManager with %s: %v", name, err)
		}
		if _, err := m.TryAcquire(t.Context(), "r", opt); !errors.Is(err, lease.ErrInvalidInput) {
			t.Errorf("TryAcquire with %s: %v", name, err)
		}
		if _, err := m.Acquire(t.Context(), "r", opt); !errors.Is(err, lease.ErrInvalidInput) {
			t.Errorf("Acquire with %s: %v", name, err)
		}
	}
	for _, resource := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 256)} {
		_, err := m.TryAcquire(t.Context(), resource)
		wantIs(t, "TryAcquire", err, lease.ErrInvalidInput)
		_, err = m.Acquire(t.Context(), resource)
		wantIs(t, "Acquire", err, lease.ErrInvalidInput)
		_, err = m.Inspect(t.Context(), resource)
		wantIs(t, "Inspect", err, lease.ErrInvalidInput)
		_, err = m.HighWater(t.Context(), resource)
		wantIs(t, "HighWater", err, lease.ErrInvalidInput)
	}
}

func TestOwnersAreUniqueByDefault(t *testing.T) {
	store := memory.New()
	one, other := manager(t, store), manager(t, store)
	a, b := take(t, one, "a"), take(t, other, "b")
	if a.Owner() == b.Owner() {
		t.Errorf("two managers have the owner %q", a.Owner())
	}
	if err := guard.ValidateOwner(a.Owner()); err != nil {
		t.Error(err)
	}
	_, err := other.TryAcquire(t.Context(), "a")
	wantIs(t, "TryAcquire of the other's", err, lease.ErrNotAcquirable)
}

func TestOptionsOfAnAcquireGoBeforeTheManagers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, memory.New(), lease.Owner("a"), lease.TTL(time.Minute))
		l := take(t, m, "r", lease.Owner("b"), lease.TTL(time.Hour))
		if l.Owner() != "b" || time.Until(l.Deadline()) != time.Hour || time.Until(l.Expiry()) != time.Hour {
			t.Errorf("owner %q, deadline in %v, expiry in %v", l.Owner(), time.Until(l.Deadline()), time.Until(l.Expiry()))
		}
		if l := take(t, m, "s"); l.Owner() != "a" || time.Until(l.Deadline()) != time.Minute {
			t.Errorf("the options of one acquire have stayed: owner %q, deadline in %v", l.Owner(), time.Until(l.Deadline()))
		}
	})
}

func TestHighWaterFollowsTheEpoch(t *testing.T) {
	m := manager(t, memory.New())
	expect := func(want int64) {
		t.Helper()
		if got, err := m.HighWater(t.Context(), "r"); err != nil || got != want {
			t.Errorf("high-water mark %d, error %v, want %d", got, err, want)
		}
	}
	expect(0)
	l := take(t, m, "r")
	expect(l.Token().Epoch)
	release(t, l)
	expect(l.Token().Epoch + 1)
}

// CASES D37: two goroutines of one client.
func TestSecondAcquireOfOneOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, memory.New(), lease.TTL(9*time.Second))
		first := take(t, m, "r")
		ctx := first.KeepAlive(t.Context())
		second := take(t, m, "r")
		if second.Token().Epoch <= first.Token().Epoch || second.Token().Grant == first.Token().Grant {
			t.Errorf("token %v after %v, want a greater one", second.Token(), first.Token())
		}
		<-ctx.Done()
		wantIs(t, "the first one's cause", context.Cause(ctx), lease.ErrLost, lease.ErrEpochMismatch)
		wantIs(t, "the first one's Release", first.Release(t.Context()), lease.ErrEpochMismatch)
		if err := second.Renew(t.Context()); err != nil {
			t.Errorf("the second one's Renew: %v", err)
		}

		_, err := m.TryAcquire(t.Context(), "r", lease.OnReentry(lease.ReentryRefuse))
		wantIs(t, "TryAcquire with refusal", err, lease.ErrNotAcquirable)
		same := take(t, m, "r", lease.OnReentry(lease.ReentryExtend))
		if same.Token() != second.Token() {
			t.Errorf("TryAcquire with extension: token %v, want %v", same.Token(), second.Token())
		}
	})
}

func TestAcquireIsWokenByAReleaseOfItsManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, memory.New(), lease.OnReentry(lease.ReentryRefuse))
		l := take(t, m, "r")
		const waiters = 5
		var got atomic.Int32
		var end sync.WaitGroup
		for range waiters {
			end.Go(func() {
				l, err := m.Acquire(t.Context(), "r")
				if err != nil {
					t.Error(err)
					return
				}
				got.Add(1)
				release(t, l)
			})
		}
		// Past the short polls, between two long ones.
		time.Sleep(20*time.Second + time.Nanosecond)
		if got.Load() != 0 {
			t.Fatalf("%d acquired a resource that is held", got.Load())
		}
		start := time.Now()
		release(t, l)
		end.Wait()
		wantAfter(t, "the last of five in a row", start, 0, time.Millisecond)
	})
}

func TestWaiterThatLeavesHandsItsWakeUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, memory.New(), lease.TTL(time.Hour), lease.OnReentry(lease.ReentryRefuse))
		for round := range 50 { // which of the two the leaving one sees first is a matter of luck
			l := take(t, m, "r")
			leaving, leave := context.WithCancel(t.Context())
			var end sync.WaitGroup
			end.Go(func() {
				if gone, err := m.Acquire(leaving, "r"); err == nil {
					release(t, gone) // it was just in time
				} else {
					wantIs(t, "Acquire of the one who leaves", err, context.Canceled)
				}
			})
			synctest.Wait()
			end.Go(func() {
				stayed, err := m.Acquire(t.Context(), "r")
				if err != nil {
					t.Error(err)
					return
				}
				release(t, stayed)
			})
			time.Sleep(20*time.Second + time.Nanosecond)
			start := time.Now()
			if round%2 == 0 {
				release(t, l)
				leave() // in the same moment
			} else {
				leave()
				release(t, l)
			}
			end.Wait()
			wantAfter(t, "the waiter that stayed", start, 0, time.Millisecond)
		}
	})
}

func TestAcquireSeesAReleaseElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		l := take(t, manager(t, store, lease.TTL(time.Hour)), "r")
		var released time.Time
		time.AfterFunc(time.Minute, func() {
			released = time.Now()
			release(t, l)
		})
		if _, err := manager(t, store).Acquire(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		wantAfter(t, "Acquire", released, 0, time.Second)
	})
}

func TestAcquireWaitsForTheExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var attempts atomic.Int32
		store.acquire = func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
			attempts.Add(1)
			return store.Store.Acquire(ctx, req)
		}
		start := time.Now()
		gone := take(t, manager(t, store, lease.TTL(30*time.Second)), "r")
		l, err := manager(t, store).Acquire(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		wantAfter(t, "the takeover", start, 30*time.Second, 30*time.Second+50*time.Millisecond)
		if l.Token().Epoch <= gone.Token().Epoch {
			t.Errorf("token %v after %v, want a greater one", l.Token(), gone.Token())
		}
		if n := attempts.Load(); n > 75 {
			t.Errorf("%d attempts in 30s, want one or two a second", n)
		}
	})
}

func TestBoundedWaitIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		take(t, manager(t, store, lease.Owner("a"), lease.TTL(time.Hour)), "r")
		m := manager(t, store)
		for _, bound := range []time.Duration{0, time.Millisecond, time.Second, time.Minute} {
			start := time.Now()
			_, err := m.Acquire(t.Context(), "r", lease.Wait(bound))
			wantAfter(t, "the timeout", start, bound, bound)
			wantIs(t, "Acquire", err, lease.ErrTimeout, lease.ErrNotAcquirable)
			var held *lease.HeldError
			if !errors.As(err, &held) || held.Holder != "a" {
				t.Errorf("error %v, want one that tells of the holder", err)
			}
			if errors.Is(err, lease.ErrLost) {
				t.Errorf("error %v matches ErrLost: nothing was lost", err)
			}
		}
	})
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		take(t, manager(t, store, lease.Owner("a"), lease.TTL(time.Hour)), "r")
		m := manager(t, store)

		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := m.Acquire(ctx, "r")
		wantAfter(t, "Acquire with a deadline", start, 10*time.Second, 10*time.Second)
		wantIs(t, "Acquire with a deadline", err, context.DeadlineExceeded, lease.ErrNotAcquirable)

		start = time.Now()
		reason := errors.New("shutting down")
		ctx, cancelCause := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancelCause(reason) })
		_, err = m.Acquire(ctx, "r")
		wantAfter(t, "cancelled Acquire", start, 3*time.Second, 3*time.Second)
		wantIs(t, "cancelled Acquire", err, context.Canceled, reason, lease.ErrNotAcquirable)

		_, err = m.Acquire(ctx, "free")
		wantIs(t, "Acquire under a context that has ended", err, context.Canceled)
		_, err = m.TryAcquire(ctx, "free")
		wantIs(t, "TryAcquire under a context that has ended", err, context.Canceled)
		wantState(t, store, "free", lease.Free, "")
	})
}

// blocked answers like a server on which guarded transactions are open until
// a time: it spends the wait and names them.
func blocked(until time.Time, store *script) func(context.Context, lease.AcquireRequest) (lease.Granted, error) {
	return func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
		if left := time.Until(until); left > req.Wait {
			time.Sleep(req.Wait)
			return lease.Granted{}, &lease.BlockedError{
				Resource: req.Resource, Wait: req.Wait, Blockers: []lease.Blocker{{PID: 4711, Application: "worker"}},
			}
		} else if left > 0 {
			time.Sleep(left)
		}
		return store.Store.Acquire(ctx, req)
	}
}

func TestAcquireBehindOpenTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store)
		store.acquire = blocked(time.Now().Add(time.Hour), store)

		start := time.Now()
		_, err := m.TryAcquire(t.Context(), "r")
		wantAfter(t, "TryAcquire", start, 5*time.Second, 5*time.Second)
		wantIs(t, "TryAcquire", err, lease.ErrBlocked, lease.ErrTimeout)

		start = time.Now()
		_, err = m.TryAcquire(t.Context(), "r", lease.Wait(20*time.Second))
		wantAfter(t, "TryAcquire with a bound", start, 20*time.Second, 20*time.Second)
		wantIs(t, "TryAcquire with a bound", err, lease.ErrBlocked, lease.ErrTimeout)

		start = time.Now()
		_, err = m.Acquire(t.Context(), "r", lease.Wait(100*time.Second))
		wantAfter(t, "Acquire with a bound", start, 100*time.Second, 100*time.Second)
		wantIs(t, "Acquire with a bound", err, lease.ErrBlocked, lease.ErrTimeout)

		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = m.Acquire(ctx, "r")
		wantAfter(t, "Acquire with a deadline", start, 10*time.Second, 10*time.Second)
		wantIs(t, "Acquire with a deadline", err, context.DeadlineExceeded, lease.ErrBlocked)
		var told *lease.BlockedError
		if !errors.As(err, &told) || len(told.Blockers) != 1 || told.Blockers[0].PID != 4711 {
			t.Errorf("error %v, want one that names the transactions", err)
		}

		start = time.Now()
		store.acquire = blocked(start.Add(3*time.Minute), store)
		l, err := m.Acquire(t.Context(), "r")
		if err != nil {
			t.Fatalf("Acquire without a bound: %v", err)
		}
		wantAfter(t, "Acquire without a bound", start, 3*time.Minute, 3*time.Minute+time.Second)
		release(t, l)
	})
}

// What is in the way can only be told before the deadline.
func TestTheWaitInTheStoreEndsBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var waits []time.Duration
		store.acquire = func(_ context.Context, req lease.AcquireRequest) (lease.Granted, error) {
			waits = append(waits, req.Wait)
			return lease.Granted{}, errDown
		}
		m := manager(t, store)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.TryAcquire(ctx, "r")
		wantIs(t, "TryAcquire", err, errDown)
		_, err = m.Acquire(ctx, "r")
		wantIs(t, "Acquire", err, errDown)
		for _, wait := range waits {
			if wait < 500*time.Millisecond || wait > 900*time.Millisecond {
				t.Errorf("the store was to wait for up to %v of a second", wait)
			}
		}
		if len(waits) != 2 {
			t.Errorf("waits %v", waits)
		}
	})
}

func TestAcquireFromAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.acquire = func(ctx context.Context, _ lease.AcquireRequest) (lease.Granted, error) {
			return lease.Granted{}, hang(ctx)
		}
		m := manager(t, store)
		for _, c := range []struct {
			name    string
			acquire func() (*lease.Lease, error)
			after   time.Duration
		}{
			{"TryAcquire", func() (*lease.Lease, error) { return m.TryAcquire(t.Context(), "r") }, 5400 * time.Millisecond},
			{"TryAcquire with Wait(0)", func() (*lease.Lease, error) { return m.TryAcquire(t.Context(), "r", lease.Wait(0)) }, 5 * time.Second},
			{"Acquire with Wait(30s)", func() (*lease.Lease, error) { return m.Acquire(t.Context(), "r", lease.Wait(30*time.Second)) }, 30400 * time.Millisecond},
			{"Acquire", func() (*lease.Lease, error) { return m.Acquire(t.Context(), "r") }, 65 * time.Second},
		} {
			start := time.Now()
			_, err := c.acquire()
			wantAfter(t, c.name, start, c.after, c.after)
			wantIs(t, c.name, err, lease.ErrTimeout)
		}
	})
}

func TestErrorsOfTheStoreReachTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.acquire = func(context.Context, lease.AcquireRequest) (lease.Granted, error) { return lease.Granted{}, errDown }
		m := manager(t, store)
		start := time.Now()
		_, err := m.Acquire(t.Context(), "r")
		wantIs(t, "Acquire", err, errDown)
		_, err = m.TryAcquire(t.Context(), "r")
		wantIs(t, "TryAcquire", err, errDown)
		wantAfter(t, "the errors", start, 0, 0)
	})
}

func TestGrantAfterTheCallerLeftIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.acquire = func(_ context.Context, req lease.AcquireRequest) (lease.Granted, error) {
			time.Sleep(500 * time.Millisecond) // on its way, cancelled or not
			return store.Store.Acquire(context.Background(), req)
		}
		m := manager(t, store, lease.TTL(time.Hour))
		for name, acquire := range map[string]func(context.Context) (*lease.Lease, error){
			"Acquire":    func(ctx context.Context) (*lease.Lease, error) { return m.Acquire(ctx, "r") },
			"TryAcquire": func(ctx context.Context) (*lease.Lease, error) { return m.TryAcquire(ctx, "r") },
		} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := acquire(ctx)
			cancel()
			wantIs(t, name, err, context.DeadlineExceeded)
			wantAfter(t, name, start, 100*time.Millisecond, 100*time.Millisecond)
			before, _ := m.HighWater(t.Context(), "r")
			time.Sleep(400 * time.Millisecond)
			synctest.Wait()
			wantState(t, store, "r", lease.Free, "")
			if after, _ := m.HighWater(t.Context(), "r"); after <= before {
				t.Errorf("%s: the mark is %d after %d: the grant never came, the test shows nothing", name, after, before)
			}
		}
	})
}

// The grant comes in the moment in which its caller leaves, or the manager is closed.
func TestAGrantInTheMomentOfLeavingIsReleased(t *testing.T) {
	for _, closed := range []bool{false, true} {
		unseen := 0
		for range 200 {
			synctest.Test(t, func(t *testing.T) {
				store := newScript()
				store.acquire = func(_ context.Context, req lease.AcquireRequest) (lease.Granted, error) {
					time.Sleep(time.Second)
					return store.Store.Acquire(context.Background(), req)
				}
				m := manager(t, store, lease.TTL(time.Hour))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Second, func() {
					if closed {
						m.Close()
					} else {
						cancel()
					}
				})
				l, err := m.TryAcquire(ctx, "r")
				if err == nil {
					release(t, l)
				} else {
					unseen++
				}
				synctest.Wait()
				wantState(t, store, "r", lease.Free, "")
			})
		}
		if unseen == 0 {
			t.Errorf("closed %t: all grants were seen", closed)
		}
	}
}

func TestNothingIsSentByAManagerThatIsClosed(t *testing.T) {
	store := newScript()
	store.acquire = func(context.Context, lease.AcquireRequest) (lease.Granted, error) {
		t.Error("a request was sent")
		return lease.Granted{}, errDown
	}
	m := manager(t, store)
	m.Close()
	for range 20 {
		_, err := m.TryAcquire(t.Context(), "r")
		wantIs(t, "TryAcquire", err, lease.ErrClosed)
		_, err = m.Acquire(t.Context(), "r")
		wantIs(t, "Acquire", err, lease.ErrClosed)
	}
}

func TestRequestOfACallerWhoLeftIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var stopped time.Time
		store.acquire = func(ctx context.Context, _ lease.AcquireRequest) (lease.Granted, error) {
			err := hang(ctx) // queues behind open transactions
			stopped = time.Now()
			return lease.Granted{}, err
		}
		m := manager(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := m.Acquire(ctx, "r")
		wantIs(t, "Acquire", err, context.Canceled)
		wantAfter(t, "Acquire", start, time.Second, time.Second)
		m.Close()
		if d := stopped.Sub(start); d != 2*time.Second {
			t.Errorf("the request was stopped after %v, want 2s", d)
		}
	})
}

func TestAcquireOverAGrantWhoseReplyWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		lost := true
		store.acquire = func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
			g, err := store.Store.Acquire(ctx, req)
			if lost {
				lost = false
				return lease.Granted{}, errDown
			}
			return g, err
		}
		m := manager(t, store)
		_, err := m.TryAcquire(t.Context(), "r")
		wantIs(t, "TryAcquire", err, errDown)
		if l := take(t, m, "r"); l.Token().Epoch != 2 {
			t.Errorf("token %v, want epoch 2, over the grant that nobody has", l.Token())
		}
	})
}

// CASES D13b: the TTL counts from the grant, so a lease that had to queue
// must not reach its caller with nothing left.
func TestGrantThatHadToQueueIsRenewedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.acquire = func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
			time.Sleep(3 * time.Second)
			return store.Store.Acquire(ctx, req)
		}
		m := manager(t, store, lease.TTL(2*time.Second))
		l := take(t, m, "r")
		if left := time.Until(l.Deadline()); left != 2*time.Second || l.Expired(time.Now()) {
			t.Errorf("%v left, expired %v; want the whole TTL", left, l.Expired(time.Now()))
		}

		// Where that fails, the lease is not handed out, and not kept either.
		store.renew = func(context.Context, []lease.Claim) ([]lease.Renewed, error) { return nil, errDown }
		_, err := m.TryAcquire(t.Context(), "s")
		wantIs(t, "TryAcquire", err, errDown)
		wantState(t, store, "s", lease.Free, "")
	})
}

func TestCloseEndsWhatTheManagerKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		other := manager(t, store, lease.Owner("b"), lease.TTL(time.Hour))
		take(t, other, "held")
		m := manager(t, store, lease.Owner("a"))
		kept, byHand := take(t, m, "kept"), take(t, m, "by hand")
		ctx := kept.KeepAlive(t.Context())
		var waited, held error
		var end sync.WaitGroup
		end.Go(func() { _, waited = m.Acquire(t.Context(), "held") })
		end.Go(func() {
			held = m.Hold(t.Context(), "job", func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
		})
		synctest.Wait()
		m.Close()
		m.Close()
		end.Wait()
		wantIs(t, "KeepAlive's cause", context.Cause(ctx), lease.ErrClosed, lease.ErrLost)
		wantIs(t, "waiting Acquire", waited, lease.ErrClosed)
		wantIs(t, "Hold", held, lease.ErrClosed, lease.ErrLost)
		wantState(t, store, "job", lease.Free, "")
		if m.Renewing() {
			t.Error("the renewer runs after Close")
		}

		late := kept.KeepAlive(t.Context())
		wantIs(t, "cause of a KeepAlive after Close", context.Cause(late), lease.ErrClosed, lease.ErrLost)
		if err := byHand.Renew(t.Context()); err != nil {
			t.Errorf("Renew by hand after Close: %v", err)
		}
		byHand.KeepAlive(t.Context())
		wantIs(t, "Renew after that", byHand.Renew(t.Context()), lease.ErrClosed)
		_, err := m.Acquire(t.Context(), "r")
		wantIs(t, "Acquire", err, lease.ErrClosed)
		_, err = m.TryAcquire(t.Context(), "r")
		wantIs(t, "TryAcquire", err, lease.ErrClosed)
		wantState(t, store, "kept", lease.Held, "a")
		if err := kept.Release(t.Context()); err != nil {
			t.Errorf("Release after Close: %v", err)
		}
		wantState(t, store, "kept", lease.Free, "")
	})
}

func TestCloseStopsARequestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.acquire = func(ctx context.Context, _ lease.AcquireRequest) (lease.Granted, error) {
			return lease.Granted{}, hang(ctx)
		}
		m := manager(t, store)
		l := make(chan error)
		go func() {
			_, err := m.Acquire(t.Context(), "r")
			l <- err
		}()
		synctest.Wait()
		start := time.Now()
		go m.Close()
		wantIs(t, "Acquire", <-l, lease.ErrClosed)
		m.Close()
		wantAfter(t, "Close", start, 0, time.Second)
	})
}

// Everything at once, for the race detector.
func TestManagerIsSafeForConcurrentUse(t *testing.T) {
	store := memory.New()
	m := manager(t, store, lease.OnReentry(lease.ReentryRefuse))
	var holders atomic.Int32
	var end sync.WaitGroup
	for range 8 {
		end.Go(func() {
			for range 50 {
				err := m.Hold(t.Context(), "r", func(ctx context.Context) error {
					if n := holders.Add(1); n != 1 {
						t.Errorf("%d hold the resource at once", n)
					}
					defer holders.Add(-1)
					return ctx.Err()
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	l := take(t, m, "shared")
	for range 8 {
		end.Go(func() {
			for range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				kept := l.KeepAlive(ctx)
				_ = l.Renew(kept) // it may be released already
				l.Expiry()
				l.Deadline()
				l.Expired(time.Now())
				cancel()
			}
		})
	}
	for range 2 {
		end.Go(func() {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	end.Wait()
}
