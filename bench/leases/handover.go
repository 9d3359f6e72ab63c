package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// handover is how long waiters took to acquire, from the sending of the release:
// one list of samples per run.
type handover struct {
	place, how string
	runs       [][]time.Duration
}

// quantile of a sorted list.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// warmUp is how many handovers come before those that are measured.
const warmUp = 5

// measureHandovers has one manager release and another, with connections of its
// own, wait.
func measureHandovers(ctx context.Context, o options, places []*place, r *results) error {
	for _, p := range places {
		if p.notifying != nil {
			r.handovers = append(r.handovers, &handover{place: p.name, how: "notification"})
		}
	}
	for _, p := range places {
		r.handovers = append(r.handovers, &handover{place: p.name, how: "polling"})
	}
	for range o.runs {
		var polls sync.WaitGroup
		var errs []error
		var mu sync.Mutex
		for _, h := range r.handovers {
			i := slices.IndexFunc(places, func(p *place) bool { return p.name == h.place })
			if h.how == "notification" {
				samples, err := measureTold(ctx, o, places[i])
				if err != nil {
					return fmt.Errorf("%s: %w", h.place, err)
				}
				h.runs = append(h.runs, samples)
				continue
			}
			// What pollers sleep is some hundred times what they work, so the
			// places do not disturb each other.
			polls.Go(func() {
				samples, err := measurePolled(ctx, o, places[i])
				mu.Lock()
				defer mu.Unlock()
				h.runs = append(h.runs, samples)
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", h.place, err))
				}
			})
		}
		polls.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// told is a store that says whether its waiters would be told of a release.
type told struct {
	lease.Store
	live atomic.Pointer[func() bool]
}

func (s *told) Watch(resource string, wake func()) (live func() bool, stop func()) {
	live, stop = s.Store.(lease.Watcher).Watch(resource, wake)
	s.live.Store(&live)
	return live, stop
}

func two(a, b lease.Store) (holder, waiter *lease.Manager, err error) {
	if holder, err = lease.NewManager(a, lease.TTL(time.Minute)); err == nil {
		waiter, err = lease.NewManager(b, lease.TTL(time.Minute))
	}
	return holder, waiter, err
}

// taken is what a waiter says.
type taken struct {
	at    time.Time
	lease *lease.Lease
	err   error
}

// measureTold measures one handover after the other.
func measureTold(ctx context.Context, o options, p *place) ([]time.Duration, error) {
	a, err := p.notifying(ctx)
	if err != nil {
		return nil, err
	}
	b, err := p.notifying(ctx)
	if err != nil {
		return nil, err
	}
	watched := &told{Store: b}
	holder, waiter, err := two(a, watched)
	if err != nil {
		return nil, err
	}
	defer holder.Close()
	defer waiter.Close()
	resource := unique()
	var samples []time.Duration
	for i := range o.samples + warmUp {
		l, err := holder.Acquire(ctx, resource)
		if err != nil {
			return nil, err
		}
		watched.live.Store(nil)
		done := make(chan taken, 1)
		go func() {
			l, err := waiter.Acquire(ctx, resource)
			done <- taken{time.Now(), l, err}
		}()
		for live := watched.live.Load(); live == nil || !(*live)(); live = watched.live.Load() {
			time.Sleep(time.Millisecond)
		}
		// It has looked once more since, and sleeps.
		time.Sleep(10*time.Millisecond + rand.N(10*time.Millisecond))
		released := time.Now()
		if err := l.Release(ctx); err != nil {
			return nil, err
		}
		t := <-done
		if t.err != nil {
			return nil, t.err
		}
		if i >= warmUp {
			samples = append(samples, t.at.Sub(released))
		}
		if err := t.lease.Release(ctx); err != nil {
			return nil, err
		}
	}
	slices.Sort(samples)
	return samples, nil
}

// measurePolled measures all handovers at once, each of a resource of its own,
// after their waiters have waited for a while: their looks are rarer then.
func measurePolled(ctx context.Context, o options, p *place) ([]time.Duration, error) {
	a, err := p.polling(ctx)
	if err != nil {
		return nil, err
	}
	b, err := p.polling(ctx)
	if err != nil {
		return nil, err
	}
	holder, waiter, err := two(a, b)
	if err != nil {
		return nil, err
	}
	defer holder.Close()
	defer waiter.Close()
	n := o.samples
	if p.most > 0 {
		n = min(n, p.most)
	}
	samples := make([]time.Duration, n)
	errs := make([]error, n)
	run := unique()
	var all sync.WaitGroup
	for i := range samples {
		resource := fmt.Sprintf("%s-%d", run, i)
		l, err := holder.Acquire(ctx, resource)
		if err != nil {
			return nil, err
		}
		done := make(chan taken, 1)
		go func() {
			l, err := waiter.Acquire(ctx, resource)
			done <- taken{time.Now(), l, err}
		}()
		all.Go(func() {
			time.Sleep(o.waited + rand.N(2*o.waited))
			released := time.Now()
			err := l.Release(ctx)
			// Under load the other handovers may come first for too long.
			for until := released.Add(time.Minute); err != nil && !errors.Is(err, lease.ErrLost) && time.Now().Before(until); {
				err = l.Release(ctx)
			}
			if errs[i] = err; err != nil {
				return
			}
			t := <-done
			samples[i], errs[i] = t.at.Sub(released), t.err
		})
	}
	all.Wait()
	slices.Sort(samples)
	return samples, errors.Join(errs...)
}
