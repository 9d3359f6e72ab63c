package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// The answer to a release is lost. What the second attempt finds tells whether the
// first had arrived; it is not guessed.
func TestALostAnswerToAReleaseIsReconciled(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrives bool                              // the first attempt
		then    func(t *testing.T, store *script) // before the second
		want    error                             // of the second
	}{
		{"it had arrived", true, nil, nil},
		{"it had not", false, nil, nil},
		{"it had arrived, and somebody has acquired since", true, func(t *testing.T, store *script) {
			take(t, manager(t, store, lease.Owner("b"), lease.TTL(time.Hour)), "r")
		}, nil},
		{"it had not, and somebody has taken over since", false, func(t *testing.T, store *script) {
			store.ahead.Add(int64(2 * time.Hour))
			take(t, manager(t, store, lease.Owner("b"), lease.TTL(time.Hour)), "r")
		}, lease.ErrNotOwner},
		{"it had not, and the lease has lapsed", false, func(_ *testing.T, store *script) {
			store.ahead.Add(int64(2 * time.Hour))
		}, lease.ErrLapsed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newScript()
			l := take(t, manager(t, store, lease.Owner("a"), lease.TTL(time.Hour)), "r")
			store.release = func(ctx context.Context, claim lease.Claim, wait time.Duration) error {
				if tt.arrives {
					if err := store.Store.Release(ctx, claim, wait); err != nil {
						t.Error(err)
					}
				}
				return errDown
			}
			wantIs(t, "the first Release", l.Release(t.Context()), errDown)
			store.release = nil
			if tt.then != nil {
				tt.then(t, store)
			}
			if err := l.Release(t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("the second Release: %v, want %v", err, tt.want)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("a third Release: %v, want nil: nothing is left to be done", err)
			}
		})
	}
}
