package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
)

func TestMain(m *testing.M) { leak.Main(m) }

// errDown is what a store without a connection answers.
var errDown = errors.New("connection refused")

// script is a memory store whose operations a test can put something before,
// or something else in place of. A nil field is the memory store's own.
type script struct {
	*memory.Store
	ahead atomic.Int64 // of the store's clock

	acquire func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error)
	renew   func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error)
	release func(ctx context.Context, claim lease.Claim, wait time.Duration) error

	mu       sync.Mutex
	renewals [][]lease.Claim // the requests, in order
	at       []time.Time     // when they came
}

func newScript() *script {
	s := &script{}
	s.Store = memory.New(memory.Clock(func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }))
	return s
}

func (s *script) Acquire(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	if s.acquire != nil {
		return s.acquire(ctx, req)
	}
	return s.Store.Acquire(ctx, req)
}

func (s *script) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	s.mu.Lock()
	s.renewals = append(s.renewals, claims)
	s.at = append(s.at, time.Now())
	s.mu.Unlock()
	if s.renew != nil {
		return s.renew(ctx, claims)
	}
	return s.Store.Renew(ctx, claims)
}

func (s *script) Release(ctx context.Context, claim lease.Claim, wait time.Duration) error {
	if s.release != nil {
		return s.release(ctx, claim, wait)
	}
	return s.Store.Release(ctx, claim, wait)
}

// requests returns the renewals so far.
func (s *script) requests() [][]lease.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]lease.Claim(nil), s.renewals...)
}

// hang waits until the caller gives up, like a store that cannot be reached.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// manager returns a manager that is closed at the end of the test.
func manager(t *testing.T, store lease.Store, opts ...lease.Option) *lease.Manager {
	t.Helper()
	m, err := lease.NewManager(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// take acquires a resource, which must succeed.
func take(t *testing.T, m *lease.Manager, resource string, opts ...lease.Option) *lease.Lease {
	t.Helper()
	l, err := m.TryAcquire(t.Context(), resource, opts...)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", resource, err)
	}
	return l
}

// release gives a lease back, which must succeed.
func release(t *testing.T, l *lease.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Errorf("Release of %q: %v", l.Resource(), err)
	}
}

// wantState checks the status and owner of a resource.
func wantState(t *testing.T, store lease.Store, resource string, status lease.Status, owner string) {
	t.Helper()
	state, err := store.Inspect(context.Background(), resource)
	if err != nil {
		t.Fatalf("Inspect(%q): %v", resource, err)
	}
	if state.Status != status || state.Owner != owner {
		t.Errorf("%q is %v, owner %q; want %v, owner %q", resource, state.Status, state.Owner, status, owner)
	}
}

// wantIs checks the causes of an error.
func wantIs(t *testing.T, what string, err error, causes ...error) {
	t.Helper()
	for _, cause := range causes {
		if !errors.Is(err, cause) {
			t.Errorf("%s: error %v, want one that matches %q", what, err, cause)
		}
	}
}

// wantAfter checks how long ago start was, in the bubble's time.
func wantAfter(t *testing.T, what string, start time.Time, least, most time.Duration) {
	t.Helper()
	if d := time.Since(start); d < least || d > most {
		t.Errorf("%s after %v, want %v to %v", what, d, least, most)
	}
}
