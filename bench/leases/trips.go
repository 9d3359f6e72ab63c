package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// trip is what one operation asks of its server.
type trip struct {
	place, operation  string
	statements, trips int64
}

const batchOfTrips = 100

// countTrips counts each operation of each store once, after each was done once:
// connections are there then, and statements prepared.
func countTrips(ctx context.Context, _ options, places []*place, r *results) error {
	for _, p := range places {
		c := &count{}
		store, _, err := p.counted(ctx, c)
		if err != nil {
			return err
		}
		for round := range 2 {
			trips, err := countOnce(ctx, store, c)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round == 0 {
				continue
			}
			for i := range trips {
				trips[i].place = p.name
			}
			r.trips = append(r.trips, trips...)
		}
	}
	return nil
}

func countOnce(ctx context.Context, store lease.Store, c *count) (counted []trip, err error) {
	resource := unique()
	ask := func(resource, owner string) lease.AcquireRequest {
		return lease.AcquireRequest{Resource: resource, Owner: owner, TTL: time.Hour, Wait: time.Second}
	}
	claim := func(g lease.Granted, owner string) lease.Claim {
		return lease.Claim{Token: g.Token, Owner: owner, TTL: time.Hour}
	}
	many := make([]lease.Claim, batchOfTrips)
	for i := range many {
		g, err := store.Acquire(ctx, ask(fmt.Sprintf("%s-%d", resource, i), "a"))
		if err != nil {
			return nil, err
		}
		many[i] = claim(g, "a")
	}
	short := ask(resource+"-short", "a")
	short.TTL = lease.MinTTL
	if _, err := store.Acquire(ctx, short); err != nil {
		return nil, err
	}
	for state := (lease.State{}); state.Status != lease.Lapsed; {
		if state, err = store.Inspect(ctx, short.Resource); err != nil {
			return nil, err
		}
	}
	var held lease.Granted
	renew := func(claims ...lease.Claim) error {
		renewed, err := store.Renew(ctx, claims)
		for _, r := range renewed {
			err = errors.Join(err, r.Err)
		}
		return err
	}
	for _, op := range []struct {
		name string
		do   func() error
		want error
	}{
		{"acquire", func() (err error) { held, err = store.Acquire(ctx, ask(resource, "a")); return err }, nil},
		{"acquire, denied", func() error { _, err := store.Acquire(ctx, ask(resource, "b")); return err }, lease.ErrNotAcquirable},
		{"acquire, a takeover", func() error { _, err := store.Acquire(ctx, ask(short.Resource, "b")); return err }, nil},
		{"renew", func() error { return renew(claim(held, "a")) }, nil},
		{fmt.Sprintf("renew of %d", batchOfTrips), func() error { return renew(many...) }, nil},
		{"inspect", func() error { _, err := store.Inspect(ctx, resource); return err }, nil},
		{"release", func() error { return store.Release(ctx, claim(held, "a"), time.Second) }, nil},
	} {
		statements, trips := c.statements.Load(), c.trips.Load()
		if err := op.do(); !errors.Is(err, op.want) {
			return nil, fmt.Errorf("%s: %w", op.name, err)
		}
		counted = append(counted, trip{
			operation: op.name, statements: c.statements.Load() - statements, trips: c.trips.Load() - trips,
		})
	}
	return counted, nil
}
