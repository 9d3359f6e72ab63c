package holdtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
)

// LateRenewal checks CASES D15: a renewal that reaches the server when its lease was
// released, or when somebody else has acquired, changes nothing. through is behind the
// proxy and sends a renewal as one message once it has made one; direct is not.
func LateRenewal(t *testing.T, proxy *testserver.Proxy, through, direct lease.Store) {
	t.Helper()
	inspect := func(resource string) lease.State {
		t.Helper()
		state, err := direct.Inspect(t.Context(), resource)
		if err != nil {
			t.Fatal(err)
		}
		state.Remaining = 0 // it runs down
		return state
	}
	for name, meanwhile := range map[string]func(t *testing.T, l *lease.Lease){
		// The control: what was held back is a renewal, and does arrive.
		"the lease is held": nil,
		"it was released":   func(*testing.T, *lease.Lease) {},
		"another owner has it": func(t *testing.T, l *lease.Lease) {
			g, err := direct.Acquire(t.Context(), lease.AcquireRequest{Resource: l.Resource(), Owner: "B", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if g.Token.Epoch != l.Token().Epoch+2 {
				t.Errorf("B was granted %v after %v and its release", g.Token, l.Token())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := manager(t, through, lease.TTL(time.Hour)).Acquire(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			caught, pass := proxy.HoldNext()
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			renewed := make(chan error, 1)
			go func() { renewed <- l.Renew(ctx) }()
			<-caught
			if meanwhile != nil {
				giveUp()
				if err := <-renewed; !errors.Is(err, context.Canceled) {
					t.Errorf("the renewal that was given up: %v", err)
				}
				err := l.Release(t.Context())
				for start := time.Now(); errors.Is(err, context.DeadlineExceeded) && time.Since(start) < patience; {
					err = l.Release(t.Context()) // a busy machine is not the point
				}
				if err != nil {
					t.Fatalf("release: %v", err)
				}
				if state := inspect(name); state.Status != lease.Free || state.Epoch != l.Token().Epoch+1 {
					t.Errorf("state %+v after the release, expected free with the epoch after %d", state, l.Token().Epoch)
				}
				meanwhile(t, l)
			}
			before := inspect(name)
			pass()
			after := inspect(name)
			if meanwhile != nil {
				if after != before {
					t.Errorf("state %+v when the renewal had arrived, expected it unchanged: %+v", after, before)
				}
				return
			}
			if err := <-renewed; err != nil {
				t.Errorf("renewal: %v", err)
			}
			if !after.Expiry.After(before.Expiry) {
				t.Errorf("expiry %v when the renewal had arrived, expected it after %v", after.Expiry, before.Expiry)
			}
		})
	}
}

// LateAcquire checks that an acquire whose client was told that its connection is lost
// takes no effect when it reaches the server after all. through is behind the proxy
// and sends an acquire as one message once it has made one; direct is not.
func LateAcquire(t *testing.T, proxy *testserver.Proxy, through, direct lease.Store) {
	t.Helper()
	for name, lost := range map[string]bool{"in time": false, "late": true} { // the first is the control
		t.Run(name, func(t *testing.T) {
			request := lease.AcquireRequest{Resource: name, Owner: "A", TTL: time.Hour}
			for range 2 { // seen before, and free
				g, err := through.Acquire(t.Context(), request)
				if err != nil {
					t.Fatal(err)
				}
				if err := through.Release(t.Context(), lease.Claim{Owner: "A", Token: g.Token}, 0); err != nil {
					t.Fatal(err)
				}
			}
			caught, pass := proxy.HoldNext()
			acquired := make(chan error, 1)
			go func() {
				_, err := through.Acquire(t.Context(), request)
				acquired <- err
			}()
			<-caught
			if lost {
				proxy.HangUp()
				if err := <-acquired; err == nil || errors.Is(err, lease.ErrNotAcquirable) || strings.Contains(err.Error(), "withdrawn") {
					t.Errorf("the acquire whose connection was lost: %v", err)
				}
			}
			before, err := direct.Inspect(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			pass()
			if !lost {
				if err := <-acquired; err != nil {
					t.Errorf("the acquire in time: %v", err)
				}
			}
			after, err := direct.Inspect(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if before.Status != lease.Free {
				t.Errorf("state %+v before the acquire had arrived, expected it free", before)
			}
			if lost && after != before {
				t.Errorf("state %+v when the acquire had arrived, expected it unchanged: %+v", after, before)
			}
			if !lost && after.Status != lease.Held {
				t.Errorf("state %+v when the acquire had arrived, expected it held", after)
			}
		})
	}
}
