package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

var errJob = errors.New("job failed")

func TestHoldRunsUnderTheTokenAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		for _, want := range []error{nil, errJob} {
			err := m.Hold(t.Context(), "r", func(ctx context.Context) error {
				time.Sleep(time.Minute)
				if ctx.Err() != nil {
					t.Errorf("fn's context: %v", context.Cause(ctx))
				}
				mark, _ := m.HighWater(ctx, "r")
				if tokens := guard.Tokens(ctx); len(tokens) != 1 || tokens[0].Epoch != mark {
					t.Errorf("fn's context carries %v, want the token with the mark %d", tokens, mark)
				}
				wantState(t, store, "r", lease.Held, "a")
				return want
			})
			if !errors.Is(err, want) {
				t.Errorf("Hold: %v, want fn's own error %v", err, want)
			}
			wantState(t, store, "r", lease.Free, "")
		}
	})
}

func TestHoldWithoutALeaseDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		take(t, manager(t, store, lease.TTL(time.Hour)), "r")
		err := manager(t, store).Hold(t.Context(), "r", func(context.Context) error {
			t.Error("fn runs without the lease")
			return nil
		}, lease.Wait(time.Second))
		wantIs(t, "Hold", err, lease.ErrTimeout, lease.ErrNotAcquirable)
	})
}

func TestHoldWithoutAFunctionTakesNoLease(t *testing.T) {
	store := newScript()
	m := manager(t, store)
	wantIs(t, "Hold", m.Hold(t.Context(), "r", nil), lease.ErrInvalidInput)
	wantIs(t, "HoldAll", m.HoldAll(t.Context(), []string{"a", "b"}, nil), lease.ErrInvalidInput)
	take(t, m, "r").Token() // and nobody holds it
}

func TestHoldReturnsTheLoss(t *testing.T) {
	for name, fn := range map[string]func(ctx context.Context) error{
		"fn returns nil":               func(context.Context) error { return nil },
		"fn returns an error":          func(context.Context) error { return errJob },
		"fn returns the context error": context.Context.Err,
		"fn returns the cause":         context.Cause,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newScript()
				a := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
				b := manager(t, store, lease.TTL(time.Hour), lease.Owner("b"))
				var cause, returned error
				err := a.Hold(t.Context(), "r", func(ctx context.Context) error {
					store.ahead.Store(int64(time.Minute))
					take(t, b, "r")
					<-ctx.Done()
					cause, returned = context.Cause(ctx), fn(ctx)
					return returned
				})
				wantIs(t, "Hold", err, lease.ErrLost, lease.ErrNotOwner, cause)
				if returned != nil {
					wantIs(t, "Hold", err, returned)
				}
				if n := strings.Count(err.Error(), cause.Error()); n != 1 {
					t.Errorf("Hold tells the loss %d times: %v", n, err)
				}
				wantState(t, store, "r", lease.Held, "b")
			})
		})
	}
}

func TestHoldReturnsALossThatShowsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		a := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		b := manager(t, store, lease.Owner("b"))
		err := a.Hold(t.Context(), "r", func(context.Context) error {
			store.ahead.Store(int64(time.Minute))
			take(t, b, "r") // and fn returns before the next renewal
			return nil
		})
		wantIs(t, "Hold", err, lease.ErrLost, lease.ErrNotOwner)
	})
}

func TestHoldReturnsAFailedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.release = func(context.Context, lease.Claim, time.Duration) error { return errDown }
		err := manager(t, store).Hold(t.Context(), "r", func(context.Context) error { return errJob })
		wantIs(t, "Hold", err, errJob, errDown)
		if errors.Is(err, lease.ErrLost) {
			t.Errorf("Hold: %v matches ErrLost, but nothing was lost", err)
		}
	})
}

// CASES D15b: fn panics.
func TestHoldReleasesWhenFnPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second))
		var kept context.Context
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("recovered %v, want fn's own panic", p)
				}
			}()
			_ = m.Hold(t.Context(), "r", func(ctx context.Context) error {
				kept = ctx
				panic("boom")
			})
		}()
		if kept.Err() == nil {
			t.Error("fn's context lives on")
		}
		wantState(t, store, "r", lease.Free, "")
		synctest.Wait()
		if m.Renewing() {
			t.Error("the renewer runs on")
		}
		time.Sleep(time.Minute)
		if n := len(store.requests()); n != 0 {
			t.Errorf("%d renewals after the panic", n)
		}
	})
}

func TestHoldRenewsUntilFnReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
		reason := errors.New("shutting down")
		root, shutDown := context.WithCancelCause(t.Context())
		err := m.Hold(root, "r", func(ctx context.Context) error {
			shutDown(reason)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), reason) {
				t.Errorf("cause %v, want the caller's", context.Cause(ctx))
			}
			time.Sleep(time.Minute) // cleaning up
			wantState(t, store, "r", lease.Held, "a")
			return nil
		})
		if err != nil {
			t.Errorf("Hold: %v, want nil: nothing was lost, and fn succeeded", err)
		}
		wantState(t, store, "r", lease.Free, "")
	})
}

func TestHoldEndsAtMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"), lease.MaxHold(time.Minute))
		start := time.Now()
		var wedged sync.WaitGroup
		wedged.Go(func() {
			err := m.Hold(t.Context(), "r", func(ctx context.Context) error {
				<-ctx.Done()
				wantAfter(t, "the end of fn's context", start, time.Minute, time.Minute)
				time.Sleep(time.Hour) // it does not listen
				return nil
			})
			wantIs(t, "Hold", err, lease.ErrLost, lease.ErrMaxHold)
		})
		synctest.Wait()
		if _, err := manager(t, store, lease.Owner("b")).Acquire(t.Context(), "r"); err != nil {
			t.Error(err)
		}
		wantAfter(t, "the next owner", start, time.Minute, time.Minute+10*time.Second)
		wedged.Wait()
	})
}

func TestContextOfHoldEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leaked context.Context
		err := manager(t, newScript()).Hold(t.Context(), "r", func(ctx context.Context) error {
			leaked = ctx
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		wantIs(t, "cause", context.Cause(leaked), lease.ErrLost)
	})
}

// What fn has found out is not told twice; what it has not is told.
func TestHoldTellsALossOnce(t *testing.T) {
	fenced := &guard.FencedError{Token: guard.Token{Resource: "r", Epoch: 1}, HighWater: 2}
	for _, tt := range []struct {
		name     string
		returned error
		want     string
	}{
		{"fn was fenced", fenced, fenced.Error()},
		{"fn failed for another reason", errJob, errJob.Error() + "\n" + lease.ErrNotOwner.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newScript()
				a := manager(t, store, lease.TTL(9*time.Second), lease.Owner("a"))
				b := manager(t, store, lease.Owner("b"))
				err := a.Hold(t.Context(), "r", func(context.Context) error {
					store.ahead.Store(int64(time.Minute))
					take(t, b, "r")
					return tt.returned
				})
				wantIs(t, "Hold", err, tt.returned, lease.ErrLost)
				if got, _, _ := strings.Cut(err.Error(), ": release of"); got != tt.want {
					t.Errorf("Hold: %v; want %q, once", err, tt.want)
				}
			})
		})
	}
}

// fn has left a transaction open: that is about the release, not about an acquire.
func TestHoldSaysThatTheReleaseFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		store.release = func(_ context.Context, claim lease.Claim, wait time.Duration) error {
			return &lease.BlockedError{Resource: claim.Token.Resource, Wait: wait}
		}
		err := manager(t, store).Hold(t.Context(), "r", func(context.Context) error { return nil })
		wantIs(t, "Hold", err, lease.ErrBlocked, lease.ErrTimeout)
		if want := `sqlfence: release of "r": `; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Hold: %v, want an error that begins with %q", err, want)
		}
	})
}
