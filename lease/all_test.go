package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
)

func TestSeveralAreAcquiredAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		other := manager(t, store, lease.Owner("other"), lease.TTL(time.Hour))
		m := manager(t, store, lease.Owner("a"), lease.TTL(9*time.Second), lease.OnReentry(lease.ReentryRefuse))

		leases, err := m.AcquireAll(t.Context(), []string{"c", "a", "b", "a"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range leases {
			names = append(names, l.Resource())
			release(t, l)
		}
		if !slices.Equal(names, []string{"a", "b", "c"}) {
			t.Errorf("leases of %v, want a, b, c", names)
		}

		// One is held for longer than the others' TTL: they are kept meanwhile.
		held := take(t, other, "b")
		start := time.Now()
		_, err = m.AcquireAll(t.Context(), []string{"a", "b", "c"}, lease.Wait(time.Minute))
		wantAfter(t, "AcquireAll", start, time.Minute, time.Minute)
		wantIs(t, "AcquireAll", err, lease.ErrTimeout, lease.ErrNotAcquirable)
		wantState(t, store, "a", lease.Free, "")
		wantState(t, store, "c", lease.Free, "")

		time.AfterFunc(time.Minute, func() { release(t, held) })
		leases, err = m.AcquireAll(t.Context(), []string{"a", "b", "c"})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			if l.Expired(time.Now()) {
				t.Errorf("%q has expired", l.Resource())
			}
			wantState(t, store, l.Resource(), lease.Held, "a")
			release(t, l)
		}
		for _, bad := range [][]string{nil, {}, {"a", ""}} {
			_, err := m.AcquireAll(t.Context(), bad)
			wantIs(t, fmt.Sprintf("AcquireAll(%q)", bad), err, lease.ErrInvalidInput)
		}
		wantState(t, store, "a", lease.Free, "")
	})
}

func TestALossWhileOthersAreWaitedForEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outage{Store: memory.New()}
		held := take(t, manager(t, store, lease.Owner("other"), lease.TTL(time.Hour)), "b")
		m := manager(t, store, lease.TTL(9*time.Second))
		time.AfterFunc(10*time.Second, func() { store.down.Store(true) })
		_, err := m.AcquireAll(t.Context(), []string{"a", "b"})
		wantIs(t, "AcquireAll", err, lease.ErrLost, errDown)
		wantState(t, store, "b", lease.Held, "other")
		release(t, held)
	})
}

// Opposite orders of the same names never wait for each other in a circle.
func TestSeveralInOppositeOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		var end sync.WaitGroup
		for i := range 8 {
			m := manager(t, store)
			names := []string{"a", "b", "c", "d"}
			if i%2 == 0 {
				slices.Reverse(names)
			}
			end.Go(func() {
				for range 20 {
					err := m.HoldAll(t.Context(), names, func(ctx context.Context) error {
						if tokens := guard.Tokens(ctx); len(tokens) != 4 {
							return fmt.Errorf("%d tokens in the context, want 4", len(tokens))
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		end.Wait()
		for _, name := range []string{"a", "b", "c", "d"} {
			wantState(t, store, name, lease.Free, "")
		}
	})
}

func TestHoldAllEndsWithTheFirstLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		err := m.HoldAll(t.Context(), []string{"a", "b"}, func(ctx context.Context) error {
			if _, err := store.Store.Acquire(ctx, lease.AcquireRequest{Resource: "a", Owner: "a", TTL: time.Hour}); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		wantIs(t, "HoldAll", err, lease.ErrLost, lease.ErrEpochMismatch)
		if errors.Is(err, context.Canceled) {
			t.Errorf("HoldAll: %v tells of the context instead of its cause", err)
		}
		wantState(t, store, "b", lease.Free, "")
	})
}
