package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// interval is what one process asks of its server in the time after which each of
// its leases is renewed once.
type interval struct {
	place             string
	leases            int
	statements, trips float64
	renewed           float64
}

// countIntervals counts for all places and numbers at once: counts do not depend on
// what else the machine does, as long as it keeps up.
func countIntervals(ctx context.Context, o options, places []*place, r *results) error {
	counted := make([]interval, len(places)*len(o.leases))
	errs := make([]error, len(counted))
	var all, held sync.WaitGroup
	held.Add(len(counted))
	begin := make(chan struct{})
	for i, p := range places {
		for k, n := range o.leases {
			at := i*len(o.leases) + k
			all.Go(func() {
				counted[at], errs[at] = countInterval(ctx, o, p, n, sync.OnceFunc(held.Done), begin)
				if errs[at] != nil {
					errs[at] = fmt.Errorf("%s, %d leases: %w", p.name, n, errs[at])
				}
			})
		}
	}
	held.Wait() // with acquires going on beside it, a machine may not keep up
	close(begin)
	all.Wait()
	r.intervals = counted
	return errors.Join(errs...)
}

func countInterval(ctx context.Context, o options, p *place, n int, ready func(), begin <-chan struct{}) (interval, error) {
	defer ready()
	c := &count{}
	store, bulk, err := p.counted(ctx, c)
	if err != nil {
		return interval{}, err
	}
	run := unique()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", run, i)
	}
	if bulk != nil {
		if store, err = acquired(ctx, store, bulk, names); err != nil {
			return interval{}, err
		}
	}
	var renewed, lost atomic.Int64
	m, err := lease.NewManager(store, lease.TTL(o.ttl), lease.Owner(holderOfMany), lease.WithHooks(lease.Hooks{
		Renewed: func(leases, failed int, _ time.Duration, _ error) { renewed.Add(int64(leases - failed)) },
		Lost:    func(guard.Token, error) { lost.Add(1) },
	}))
	if err != nil {
		return interval{}, err
	}
	defer m.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var acquirers sync.WaitGroup
	errs := make([]error, mostClients)
	for a := range mostClients {
		acquirers.Go(func() {
			for i := a; i < n && errs[a] == nil; i += mostClients {
				var l *lease.Lease
				if l, errs[a] = m.TryAcquire(ctx, names[i]); errs[a] == nil {
					l.KeepAlive(ctx)
				}
			}
		})
	}
	acquirers.Wait()
	if err := errors.Join(errs...); err != nil {
		return interval{}, err
	}
	ready()
	<-begin
	time.Sleep(2 * o.ttl / 3) // the first renewals connect, prepare, and gather what was acquired one by one
	statements, trips, before := c.statements.Load(), c.trips.Load(), renewed.Load()
	time.Sleep(time.Duration(o.intervals) * o.ttl / 3)
	per := float64(o.intervals)
	result := interval{
		place: p.name, leases: n,
		statements: float64(c.statements.Load()-statements) / per,
		trips:      float64(c.trips.Load()-trips) / per,
		renewed:    float64(renewed.Load()-before) / per,
	}
	cancel() // nobody is to renew while the place is closed
	if k := lost.Load(); k > 0 {
		return result, fmt.Errorf("%d leases were lost", k)
	}
	return result, nil
}

const holderOfMany = "holder of many"

// granted is a store whose leases were acquired before, which it hands out.
type granted struct {
	lease.Store
	grants map[string]lease.Granted
}

func (s granted) Acquire(_ context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	return s.grants[req.Resource], nil
}

// grantedBatcher is one whose store knows how many leases go into a request.
type grantedBatcher struct {
	granted
	lease.Batcher
}

// acquired acquires all in one transaction: one by one they would wait for the disk
// ten thousand times.
func acquired(ctx context.Context, store lease.Store, bulk bulk, names []string) (lease.Store, error) {
	grants := make(map[string]lease.Granted, len(names))
	err := bulk(ctx, func(in lease.Store) error {
		for _, name := range names {
			g, err := in.Acquire(ctx, lease.AcquireRequest{Resource: name, Owner: holderOfMany, TTL: time.Hour, Wait: time.Minute})
			if err != nil {
				return err
			}
			grants[name] = g
		}
		return nil
	})
	if b, ok := store.(lease.Batcher); ok {
		return grantedBatcher{granted{store, grants}, b}, err
	}
	return granted{store, grants}, err
}
