package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

// exhaust has blocking commands take every connection of a client, until the test ends
// or release is called.
func exhaust(t *testing.T, client, other goredis.UniversalClient, size int, key string) (release func()) {
	t.Helper()
	var blocked sync.WaitGroup
	for i := range size {
		blocked.Go(func() {
			if err := client.BLPop(context.WithoutCancel(t.Context()), time.Minute, key).Err(); err != nil {
				t.Errorf("blocking command %d: %v", i, err)
			}
		})
	}
	release = sync.OnceFunc(func() {
		// One after the other: a list that is left over wakes the next one.
		for range size {
			if err := other.RPush(context.WithoutCancel(t.Context()), key, "x").Err(); err != nil {
				t.Error(err)
			}
		}
		blocked.Wait()
	})
	t.Cleanup(release)
	// Until no connection is left for a command of the program.
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := client.Get(ctx, "other"+key).Err()
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return release
		case err != nil && !errors.Is(err, goredis.Nil):
			t.Fatal(err)
		}
	}
}

// Blocking commands take all connections of the pool for longer than the TTL.
func TestRenewalsSurviveAnExhaustedPool(t *testing.T) { // CASES D11
	const size = 2
	survive := func(t *testing.T, client, other goredis.UniversalClient) {
		const ttl = 2 * time.Second
		s := leaseredis.New(client)
		m, err := lease.NewManager(s, lease.TTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		l, err := m.TryAcquire(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		kept := l.KeepAlive(t.Context())
		release := exhaust(t, client, other, size, "list"+s.Tag("r"))
		for first := l.Expiry(); l.Expiry().Sub(first) <= ttl; {
			select {
			case <-kept.Done():
				t.Fatalf("the lease was lost: %v", context.Cause(kept))
			case <-time.After(10 * time.Millisecond):
			}
		}
		release()
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
	}
	testserver.EachRedis(t, func(t *testing.T, url string) {
		opts, err := goredis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		opts.PoolSize = size
		client := goredis.NewClient(opts)
		defer client.Close()
		survive(t, client, open(t, url))
	})
	t.Run("Cluster", func(t *testing.T) {
		nodes := testserver.RedisCluster(t, 3)
		client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: nodes, PoolSize: size})
		defer client.Close()
		other := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: nodes})
		defer other.Close()
		survive(t, client, other)
	})
}

// Without connections for pipelines there is none for renewals either: the lease is
// lost, and the loss says why.
func TestALossByAnExhaustedPoolSaysSo(t *testing.T) { // CASES D11
	testserver.EachRedis(t, func(t *testing.T, url string) {
		opts, err := goredis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		opts.PoolSize, opts.PipelinePoolSize = 1, -1
		client := goredis.NewClient(opts)
		defer client.Close()
		m, err := lease.NewManager(leaseredis.New(client), lease.TTL(600*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var release func()
		err = m.Hold(t.Context(), "r", func(ctx context.Context) error {
			release = exhaust(t, client, open(t, url), 1, "list{r}")
			<-ctx.Done()
			release()
			return nil
		})
		if !errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "all 1 connections of the client are in use") {
			t.Errorf("Hold: %v, expected a loss that tells of the pool", err)
		}
	})
}
