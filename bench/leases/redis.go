package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredisclient "github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/lease"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

// openRedis uses keys of its own on the server of the URL.
func openRedis(ctx context.Context, p *place, dsn string) error {
	opts, err := goredisclient.ParseURL(dsn)
	if err != nil {
		return err
	}
	opts.PoolSize = 2 * mostClients
	client := goredisclient.NewClient(opts)
	p.later(client.Close)
	version, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return err
	}
	p.name, p.wire = "Redis "+version["Server"]["redis_version"], true
	persistence, err := client.ConfigGet(ctx, "append*").Result()
	if err != nil {
		return err
	}
	p.settings = "go-redis v9; appendonly=" + persistence["appendonly"]
	if persistence["appendonly"] == "yes" {
		p.settings += ", appendfsync=" + persistence["appendfsync"]
	}
	prefix := unique()
	p.later(func() error {
		ctx := context.WithoutCancel(ctx)
		for keys := client.Scan(ctx, 0, prefix+"*", 1000).Iterator(); ; {
			if !keys.Next(ctx) {
				return keys.Err()
			}
			if err := client.Del(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
	})
	store := func(prefix string) *leaseredis.Store {
		s := leaseredis.New(client, leaseredis.Prefix(prefix))
		p.later(s.Close)
		return s
	}
	p.polling = func(context.Context) (lease.Store, error) { return untold{store(prefix)}, nil }
	p.notifying = func(context.Context) (lease.Store, error) { return store(prefix), nil }
	p.counted = func(_ context.Context, c *count) (lease.Store, bulk, error) {
		counted := *opts
		counted.Dialer = c.dial
		client := goredisclient.NewClient(&counted)
		client.AddHook(commands{c})
		p.later(client.Close)
		return untold{leaseredis.New(client, leaseredis.Prefix(prefix+"_counted"))}, nil, nil
	}
	key := func(kind string, client int) string { return fmt.Sprintf("%s:%s:%d", prefix, kind, client) }
	p.ways = append(p.ways, way{name: "SET NX PX and DEL of one key", pair: func(ctx context.Context, n int) (func() error, error) {
		return func() error {
			set, err := client.SetNX(ctx, key("yardstick", n), "x", 30*time.Second).Result()
			if err != nil || !set {
				return fmt.Errorf("SET NX: %t (%w)", set, err)
			}
			deleted, err := client.Del(ctx, key("yardstick", n)).Result()
			if err == nil && deleted != 1 {
				err = errors.New("DEL deleted nothing")
			}
			return err
		}, nil
	}})
	if err := p.addSqlfence(ctx); err != nil {
		return err
	}
	locker := redislock.New(client)
	sync := redsync.New(goredis.NewPool(client))
	p.ways = append(p.ways,
		way{name: "bsm/redislock: Obtain, Release", peer: true, pair: func(ctx context.Context, n int) (func() error, error) {
			return func() error {
				lock, err := locker.Obtain(ctx, key("redislock", n), 30*time.Second, nil)
				if err != nil {
					return err
				}
				return lock.Release(ctx)
			}, nil
		}},
		way{name: "go-redsync/redsync: TryLock, Unlock", peer: true, pair: func(ctx context.Context, n int) (func() error, error) {
			return func() error {
				mutex := sync.NewMutex(key("redsync", n), redsync.WithExpiry(30*time.Second))
				if err := mutex.TryLockContext(ctx); err != nil {
					return err
				}
				ok, err := mutex.UnlockContext(ctx)
				if err == nil && !ok {
					err = errors.New("did not unlock")
				}
				return err
			}, nil
		}})
	return nil
}

// untold is a store without its notifications.
type untold struct{ lease.Store }
