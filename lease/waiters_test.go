package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// telling is a store that tells of releases, like a server with a channel.
type telling struct {
	*script
	mu      sync.Mutex
	watches map[*func()]string
	live    bool
}

func (s *telling) Watch(resource string, wake func()) (live func() bool, stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches == nil {
		s.watches = make(map[*func()]string)
	}
	key := &wake
	s.watches[key] = resource
	return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.live
		}, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.watches, key)
		}
}

func (s *telling) Release(ctx context.Context, claim lease.Claim, wait time.Duration) error {
	err := s.script.Release(ctx, claim, wait)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.live {
		for wake, resource := range s.watches {
			if resource == claim.Token.Resource {
				go (*wake)()
			}
		}
	}
	return err
}

// counting counts the attempts on a script's store.
func counting(s *script) *atomic.Int64 {
	var n atomic.Int64
	s.acquire = func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
		n.Add(1)
		return s.Store.Acquire(ctx, req)
	}
	return &n
}

// A hundred who wait cost no more than one, and a release costs one or two
// statements more, not a hundred.
func TestWaitersAreNoHerd(t *testing.T) {
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprintf("the store tells of releases: %v", live), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &telling{script: newScript(), live: live}
				attempts := counting(store.script)
				holder := manager(t, store, lease.TTL(24*time.Hour))
				m := manager(t, store, lease.OnReentry(lease.ReentryRefuse), lease.TTL(24*time.Hour))
				held := take(t, holder, "r")
				const waiting = 100
				got := make(chan *lease.Lease)
				for range waiting {
					go func() {
						l, err := m.Acquire(context.WithoutCancel(t.Context()), "r")
						if err != nil {
							t.Error(err)
						}
						got <- l
					}()
				}
				synctest.Wait()
				if n := attempts.Swap(0); n > waiting+2 {
					t.Errorf("%d attempts by %d who begin to wait", n, waiting)
				}
				time.Sleep(10 * time.Minute)
				most := int64(10*60*2 + 10)
				if live {
					most = 10*60/5 + 10
				}
				if n := attempts.Swap(0); n > most {
					t.Errorf("%d attempts in 10 minutes, want at most %d", n, most)
				}
				start := time.Now()
				release(t, held)
				for i := range waiting {
					l := <-got
					if i == 0 && live {
						wantAfter(t, "the first", start, 0, time.Millisecond)
					}
					release(t, l)
				}
				if n := attempts.Load(); n > 3*waiting {
					t.Errorf("%d attempts for %d handovers", n, waiting)
				}
			})
		})
	}
}

func TestAReleaseElsewhereWakesWhereTheStoreTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &telling{script: newScript(), live: true}
		held := take(t, manager(t, store, lease.TTL(time.Hour)), "r")
		m := manager(t, store)
		var released time.Time
		time.AfterFunc(61*time.Second, func() {
			released = time.Now()
			release(t, held)
		})
		l, err := m.Acquire(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		wantAfter(t, "Acquire", released, 0, time.Millisecond)
		release(t, l)
		synctest.Wait()
		if n := len(store.watches); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

// The first of those who wait leaves: another one looks from then on.
func TestWhenTheFirstWaiterLeavesTheNextOneLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		held := take(t, manager(t, store, lease.TTL(time.Hour)), "r")
		m := manager(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = m.Acquire(ctx, "r") }()
		synctest.Wait()
		got := make(chan time.Time)
		go func() {
			l, err := m.Acquire(context.WithoutCancel(t.Context()), "r")
			if err != nil {
				t.Error(err)
			} else {
				defer release(t, l)
			}
			got <- time.Now()
		}()
		time.Sleep(time.Minute)
		cancel()
		time.Sleep(time.Minute)
		start := time.Now()
		release(t, held)
		if took := (<-got).Sub(start); took > time.Second {
			t.Errorf("the next waiter got it after %v, want its next look, at most 1s", took)
		}
	})
}

// outage is a store that cannot be reached while it is down.
type outage struct {
	lease.Store
	down atomic.Bool
}

func (o *outage) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	if o.down.Load() {
		return nil, errDown
	}
	return o.Store.Renew(ctx, claims)
}

func TestWarningBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outage{Store: newScript()}
		var warned []time.Duration
		var mu sync.Mutex
		start := time.Now()
		m := manager(t, store, lease.TTL(30*time.Second), lease.WarnBefore(8*time.Second, func(l *lease.Lease) {
			mu.Lock()
			defer mu.Unlock()
			warned = append(warned, time.Since(start))
			store.down.Store(false)
			if left := time.Until(l.Deadline()); left != 8*time.Second {
				t.Errorf("warned %v before the deadline, want 8s", left)
			}
		}))
		l := take(t, m, "r")
		ctx := l.KeepAlive(t.Context())
		time.Sleep(time.Minute) // renewals succeed
		for range 2 {
			store.down.Store(true)
			time.Sleep(time.Minute)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(warned) != 2 {
			t.Errorf("warned %v, want once for each of two outages", warned)
		}
		if ctx.Err() != nil {
			t.Errorf("the lease was lost: %v", context.Cause(ctx))
		}
		release(t, l)
	})
	for _, d := range []time.Duration{0, -1, lease.DefaultTTL} {
		_, err := lease.NewManager(newScript(), lease.WarnBefore(d, func(*lease.Lease) {}))
		wantIs(t, fmt.Sprint("WarnBefore ", d), err, lease.ErrInvalidInput)
	}
}

func TestHooksAndLogTellWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf(format, args...))
		}
		var log strings.Builder
		clock := newScript()
		store := &outage{Store: clock}
		m := manager(t, store, lease.Owner("a"), lease.TTL(9*time.Second),
			lease.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
			lease.WithHooks(lease.Hooks{
				Acquired: func(token guard.Token, waited time.Duration) { note("acquired %s after %v", token.Resource, waited) },
				Denied:   func(resource string, _ error) { note("denied %s", resource) },
				Renewed: func(leases, failed int, _ time.Duration, err error) {
					note("renewed %d, failed %d, %v", leases, failed, err)
				},
				Lost:     func(token guard.Token, cause error) { note("lost %s", token.Resource) },
				Released: func(token guard.Token, err error) { note("released %s, %v", token.Resource, err) },
			}))
		l := take(t, m, "r")
		ctx := l.KeepAlive(t.Context())
		time.Sleep(4 * time.Second)
		_, err := manager(t, store).TryAcquire(t.Context(), "r", lease.WithHooks(lease.Hooks{
			Denied: func(resource string, _ error) { note("another denied %s", resource) },
		}))
		wantIs(t, "TryAcquire", err, lease.ErrNotAcquirable)
		store.down.Store(true)
		time.Sleep(2*time.Second + time.Millisecond)
		store.down.Store(false)
		clock.ahead.Add(int64(time.Hour))
		<-ctx.Done()
		_ = l.Release(t.Context())
		release(t, take(t, m, "s"))
		synctest.Wait() // hooks and log are told in the background as well
		mu.Lock()
		got := strings.Join(seen, "; ")
		mu.Unlock()
		for _, want := range []string{
			"acquired r after 0s", "renewed 1, failed 0, <nil>", "another denied r", "renewed 1, failed 1, connection refused",
			"lost r", "acquired s after 0s", "released s, <nil>",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the hooks were told: %s; want %q among it", got, want)
			}
		}
		for _, want := range []string{"level=WARN msg=\"sqlfence: lease lost\"", "level=WARN msg=\"sqlfence: renewal failed\"", "level=DEBUG msg=\"sqlfence: lease acquired\""} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %s:\n%s", want, log.String())
			}
		}
	})
}

// Ten thousand leases are renewed by at most 20 requests per interval.
func TestTenThousandLeasesAreRenewedByFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript()
		m := manager(t, store, lease.TTL(30*time.Second))
		const many = 10000
		lost, failed := take(t, m, "lost"), take(t, m, "stuck")
		lostCtx := lost.KeepAlive(t.Context())
		failed.KeepAlive(t.Context())
		if err := store.Store.Release(t.Context(), lease.Claim{Token: lost.Token(), Owner: lost.Owner()}, 0); err != nil {
			t.Fatal(err)
		}
		store.renew = func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
			renewed, err := store.Store.Renew(ctx, claims)
			for i, c := range claims {
				if c.Token.Resource == "stuck" {
					if len(claims) == 1 {
						return nil, hang(ctx) // its row is locked
					}
					renewed[i].Err = errDown
				}
			}
			return renewed, err
		}
		leases := make([]*lease.Lease, many)
		for i := range leases {
			leases[i] = take(t, m, fmt.Sprint("r", i))
			leases[i].KeepAlive(t.Context())
		}
		time.Sleep(20 * time.Second) // into step
		before := len(store.requests())
		const intervals = 6
		time.Sleep(intervals * 10 * time.Second)
		batches, singles := 0, 0
		for _, claims := range store.requests()[before:] {
			if len(claims) == 1 {
				singles++
			} else {
				batches++
			}
		}
		if batches > intervals*20 || batches < intervals {
			t.Errorf("%d requests in %d intervals, want at most 20 each", batches, intervals)
		}
		t.Logf("%d batches and %d single renewals in %d intervals", batches, singles, intervals)
		for _, l := range leases {
			if l.Expired(time.Now()) {
				t.Fatalf("%q was lost", l.Resource())
			}
		}
		wantIs(t, "the lost one", context.Cause(lostCtx), lease.ErrLost)
		m.Close()
	})
}
