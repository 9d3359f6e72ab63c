package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/internal/rate"
	"github.com/sqlfence/sqlfence/lease"
)

// way is how one acquires and releases.
type way struct {
	name string
	peer bool // something that people use instead
	// pair returns one client's acquire and release of a resource of its own. It
	// fails if either did not do what it is for.
	pair func(ctx context.Context, client int) (func() error, error)
}

// clientCounts are how many clients are at work at once.
var clientCounts = []int{1, 8}

const mostClients = 8

// managed is a pair through a Manager, as a program does it.
func managed(store lease.Store) (func(ctx context.Context, client int) (func() error, error), error) {
	m, err := lease.NewManager(store, lease.TTL(30*time.Second))
	if err != nil {
		return nil, err
	}
	run := unique()
	return func(ctx context.Context, client int) (func() error, error) {
		resource := fmt.Sprintf("%s-%d", run, client)
		last := int64(0)
		return func() error {
			l, err := m.TryAcquire(ctx, resource)
			if err != nil {
				return err
			}
			if epoch := l.Token().Epoch; epoch <= last {
				return fmt.Errorf("epoch %d after %d", epoch, last)
			} else {
				last = epoch
			}
			return l.Release(ctx)
		}, nil
	}, nil
}

// addSqlfence adds the way of this library.
func (p *place) addSqlfence(ctx context.Context) error {
	store, err := p.polling(ctx)
	if err != nil {
		return err
	}
	pair, err := managed(store)
	p.ways = append(p.ways, way{name: sqlfence, pair: pair})
	return err
}

const sqlfence = "sqlfence"

// measureRates measures every way once in each round. The order differs from round
// to round, so that no way always follows the same one.
func measureRates(ctx context.Context, o options, places []*place, r *results) error {
	d := time.Duration(o.seconds * float64(time.Second))
	for round := range o.rounds {
		for _, p := range places {
			for _, clients := range clientCounts {
				for i := range p.ways {
					w := p.ways[(i+round)%len(p.ways)]
					perSecond, err := measure(ctx, w, clients, d)
					if err != nil {
						return fmt.Errorf("%s, %s, %d clients: %w", p.name, w.name, clients, err)
					}
					c := cell{p.name, w.name, clients}
					r.rates[c] = append(r.rates[c], perSecond)
				}
			}
		}
	}
	return nil
}

// measure returns how many pairs the clients do per second, all together.
func measure(ctx context.Context, w way, clients int, d time.Duration) (float64, error) {
	pairs := make([]func() error, clients)
	for client := range pairs {
		var err error
		if pairs[client], err = w.pair(ctx, client); err != nil {
			return 0, err
		}
	}
	r, err := rate.Measure(d, pairs)
	return r.PerSecond, err
}
