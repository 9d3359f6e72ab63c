package redis_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

func TestMain(m *testing.M) {
	holdtest.Contend(func(url string) (lease.Store, error) {
		opts, err := goredis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		return leaseredis.New(goredis.NewClient(opts)), nil
	})
	// A connection of go-redis that is made while its client is being closed
	// leaves this goroutine behind.
	leak.Main(m, goleak.IgnoreAnyFunction(
		"github.com/redis/go-redis/v9/maintnotifications.(*CircuitBreakerManager).cleanupLoop"))
}

// open returns a client, closed with the test.
func open(t testing.TB, url string, change ...func(*goredis.Options)) *goredis.Client {
	t.Helper()
	opts, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.MinIdleConns = 0
	opts.PoolSize = 20
	for _, f := range change {
		f(opts)
	}
	client := goredis.NewClient(opts)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// lapse makes a lease lapse now, whatever its TTL.
func lapse(t testing.TB, client goredis.UniversalClient, s *leaseredis.Store, resource string) {
	t.Helper()
	if err := client.HSet(t.Context(), s.Key(resource), "expiry", "1").Err(); err != nil {
		t.Fatal(err)
	}
}

func request(resource, owner string) lease.AcquireRequest {
	return lease.AcquireRequest{Resource: resource, Owner: owner, TTL: time.Hour}
}

func mustAcquire(t testing.TB, s lease.Store, req lease.AcquireRequest) lease.Granted {
	t.Helper()
	g, err := s.Acquire(t.Context(), req)
	if err != nil {
		t.Fatalf("acquire of %q by %q: %v", req.Resource, req.Owner, err)
	}
	return g
}

func claim(g lease.Granted, owner string) lease.Claim {
	return lease.Claim{Token: g.Token, Owner: owner, TTL: time.Hour}
}

func TestConformance(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		conform(t, open(t, url))
	})
}

// A client that heeds the contexts of its callers, and one that never does.
func TestConformanceWithContextTimeouts(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		opts, err := goredis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		opts.ContextTimeoutEnabled = true
		client := goredis.NewClient(opts)
		defer client.Close()
		conform(t, client)
	})
}

func conform(t *testing.T, client goredis.UniversalClient) {
	leasetest.Run(t, leasetest.Config{
		New: func(testing.TB) lease.Store { return leaseredis.New(client) },
		Lapse: func(t testing.TB, s lease.Store, resource string) {
			t.Helper()
			lapse(t, client, s.(*leaseredis.Store), resource)
		},
		SetMark: func(t testing.TB, s lease.Store, resource string, mark int64) {
			t.Helper()
			if err := s.(*leaseredis.Store).Advance(context.WithoutCancel(t.Context()), guard.Token{Resource: resource, Epoch: mark}); err != nil {
				t.Fatal(err)
			}
		},
	})
}
