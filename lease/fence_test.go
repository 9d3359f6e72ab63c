package lease_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
)

// marks is a fence in memory.
type marks struct {
	mu     sync.Mutex
	marks  map[string]guard.Token
	before func(guard.Token) error // instead of an Advance that it refuses
}

func (m *marks) Advance(_ context.Context, t guard.Token) error {
	if m.before != nil {
		if err := m.before(t); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marks == nil {
		m.marks = make(map[string]guard.Token)
	}
	if t.Epoch > m.marks[t.Resource].Epoch {
		m.marks[t.Resource] = t
	}
	return guard.Judge(t, m.marks[t.Resource].Epoch, m.marks[t.Resource].Grant)
}

func (m *marks) judge(t guard.Token) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return guard.Judge(t, m.marks[t.Resource].Epoch, m.marks[t.Resource].Grant)
}

func TestTheFenceIsAdvancedBeforeTheLeaseIsHandedOut(t *testing.T) {
	fence := &marks{}
	m := manager(t, memory.New(), lease.WithFence(fence))
	first := take(t, m, "r")
	if err := fence.judge(first.Token()); err != nil {
		t.Errorf("the token does not pass: %v", err)
	}
	release(t, first)
	if err := fence.judge(first.Token()); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("the token that was given back: %v, want it fenced at once", err)
	}
	second := take(t, m, "r")
	if err := fence.judge(second.Token()); err != nil {
		t.Errorf("the next token does not pass: %v", err)
	}
}

// A store that has lost its counter (FLUSHALL, failover) is told the mark.
func TestALostCounterIsHealedFromTheFence(t *testing.T) {
	fence := &marks{}
	var last int64
	for range 5 { // each time with a new, empty store
		m := manager(t, memory.New(), lease.WithFence(fence), lease.OnReentry(lease.ReentryRefuse))
		for range 3 {
			l := take(t, m, "r")
			if l.Token().Epoch <= last {
				t.Errorf("epoch %d after %d, want a greater one", l.Token().Epoch, last)
			}
			last = l.Token().Epoch
			if err := fence.judge(l.Token()); err != nil {
				t.Errorf("the token does not pass: %v", err)
			}
			if err := l.Renew(t.Context()); err != nil {
				t.Errorf("Renew: %v", err)
			}
			release(t, l)
		}
	}
}

func TestAFenceThatCannotBeAdvancedGivesTheLeaseBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		is   error
	}{
		{"no connection", errDown, errDown},
		{"open guarded transactions", errors.New("pq: sqlfence: wait bound spent: …"), lease.ErrBlocked},
		{"the last epoch", &guard.FencedError{HighWater: math.MaxInt64}, lease.ErrExhausted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := memory.New()
			fence := &marks{before: func(guard.Token) error { return tt.err }}
			_, err := manager(t, store, lease.WithFence(fence)).TryAcquire(t.Context(), "r")
			wantIs(t, "TryAcquire", err, tt.is)
			wantState(t, store, "r", lease.Free, "")
		})
	}
}

// The store has lost its counter, and fails when it is asked for an epoch above the mark.
func TestAGrantBelowTheMarkIsGivenBackWhereNoneAboveCanBeHad(t *testing.T) {
	store := newScript()
	store.acquire = func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
		if req.MinEpoch > 0 {
			return lease.Granted{}, errDown
		}
		return store.Store.Acquire(ctx, req)
	}
	fence := &marks{marks: map[string]guard.Token{"r": {Resource: "r", Epoch: 7, Grant: 7}}}
	_, err := manager(t, store, lease.WithFence(fence)).TryAcquire(t.Context(), "r")
	wantIs(t, "TryAcquire", err, errDown)
	wantState(t, store.Store, "r", lease.Free, "")
}

func TestAReleaseFreesTheResourceWithoutItsFenceAndSaysSo(t *testing.T) {
	store, fence := memory.New(), &marks{}
	l := take(t, manager(t, store, lease.WithFence(fence)), "r")
	fence.before = func(guard.Token) error { return errDown }
	wantIs(t, "Release", l.Release(t.Context()), errDown)
	wantState(t, store, "r", lease.Free, "")
	fence.before = nil
	next := take(t, manager(t, store, lease.WithFence(fence)), "r")
	if err := fence.judge(l.Token()); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("the former token: %v, want it fenced", err)
	}
	if err := fence.judge(next.Token()); err != nil {
		t.Errorf("the next token: %v", err)
	}
}

// Callers with little patience do not each take the resource for a moment.
func TestARequestThatWasLeftServesTheNextCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		var requests atomic.Int32
		store.acquire = func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
			requests.Add(1)
			time.Sleep(100 * time.Millisecond) // the server is slow
			return store.Store.Acquire(ctx, req)
		}
		m := manager(t, store, lease.OnReentry(lease.ReentryRefuse))
		var l *lease.Lease
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			got, err := m.TryAcquire(ctx, "r")
			cancel()
			if err == nil {
				l = got
				break
			}
			wantIs(t, "TryAcquire", err, context.DeadlineExceeded)
		}
		if l == nil || requests.Load() != 1 {
			t.Fatalf("lease %v after %d requests, want one from the first", l, requests.Load())
		}
		if epoch := l.Token().Epoch; epoch != 1 {
			t.Errorf("epoch %d, want 1: none was minted in vain", epoch)
		}
		synctest.Wait()
		wantState(t, store, "r", lease.Held, l.Owner()) // it is not given back as well
		release(t, l)
	})
}

func TestALeaseThatNobodyTookGoesToWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.OnReentry(lease.ReentryRefuse), lease.TTL(time.Hour))
		holder := take(t, m, "r")
		var slow atomic.Bool
		store.acquire = func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
			if slow.Swap(false) {
				time.Sleep(100 * time.Millisecond)
			}
			return store.Store.Acquire(ctx, req)
		}
		got := make(chan *lease.Lease)
		go func() {
			l, err := m.Acquire(context.WithoutCancel(t.Context()), "r", lease.MaxHold(time.Minute))
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		time.Sleep(20 * time.Second)
		slow.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		left := make(chan error)
		go func() {
			_, err := m.TryAcquire(ctx, "r")
			left <- err
		}()
		synctest.Wait()
		// Freed behind the manager's back: the waiter does not know.
		if err := store.Store.Release(t.Context(), lease.Claim{Token: holder.Token(), Owner: holder.Owner()}, 0); err != nil {
			t.Fatal(err)
		}
		wantIs(t, "TryAcquire", <-left, context.DeadlineExceeded)
		l := <-got
		if l.Token().Epoch != holder.Token().Epoch+2 {
			t.Errorf("epoch %d, want %d: the grant went from hand to hand", l.Token().Epoch, holder.Token().Epoch+2)
		}
		kept := l.KeepAlive(t.Context())
		time.Sleep(time.Minute)
		wantIs(t, "what its new holder asked for", context.Cause(kept), lease.ErrMaxHold)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

// Who was handed a lease leaves in the middle of an attempt, and does not take it.
func TestALeaseThatNobodyTookIsGivenBackByWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.OnReentry(lease.ReentryRefuse), lease.TTL(time.Hour))
		holder := take(t, m, "r")
		var requests atomic.Int32
		store.acquire = func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
			switch requests.Add(1) {
			case 2: // the waiter's second look
				return lease.Granted{}, hang(ctx)
			case 3:
				time.Sleep(100 * time.Millisecond)
			}
			return store.Store.Acquire(ctx, req)
		}
		waiting, leave := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := m.Acquire(waiting, "r")
			gone <- err
		}()
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		left := make(chan error)
		go func() {
			_, err := m.TryAcquire(ctx, "r")
			left <- err
		}()
		synctest.Wait()
		if err := store.Store.Release(t.Context(), lease.Claim{Token: holder.Token(), Owner: holder.Owner()}, 0); err != nil {
			t.Fatal(err)
		}
		wantIs(t, "TryAcquire", <-left, context.DeadlineExceeded)
		time.Sleep(time.Second)
		wantState(t, store, "r", lease.Held, holder.Owner()) // the waiter has it, and does not know
		leave()
		wantIs(t, "Acquire", <-gone, context.Canceled)
		synctest.Wait()
		wantState(t, store, "r", lease.Free, "")
	})
}

// Its TTL may be shorter than the wait for the guarded transactions of the former
// owner.
func TestALeaseLivesWhileItsFenceIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		waits := &marks{before: func(guard.Token) error {
			time.Sleep(10 * time.Second) // others are in the way
			return nil
		}}
		l, err := manager(t, store, lease.WithFence(waits), lease.TTL(time.Second)).Acquire(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Renew(t.Context()); err != nil || l.Token().Epoch != 1 {
			t.Errorf("%v with epoch %d, want the first grant alive", err, l.Token().Epoch)
		}
		waits.before = nil
		release(t, l)
	})
}
