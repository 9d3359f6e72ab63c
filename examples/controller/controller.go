// Package controller is a recipe: replicas of a controller, of which the elected leader
// works. Its work stops when leadership is lost, and what still is on its way then is
// refused by the database.
package controller

import (
	"context"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// Controller reconciles while it leads.
type Controller struct {
	Leases *lease.Manager
	Name   string // the same in all replicas
	// Reconcile is called once per Every while this replica leads, with a context that
	// carries the token and ends with leadership. It must return when that ends.
	Reconcile func(ctx context.Context) error
	Every     time.Duration
	// Observe is told of leadership won (nil) and ended (why), and of errors of
	// Reconcile.
	Observe func(event string, err error)
}

// Run campaigns, leads, and campaigns again after a loss, until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.Leases.Hold(ctx, "controller/"+c.Name, func(ctx context.Context) error {
			c.Observe("leading", nil)
			c.lead(ctx)
			return nil
		})
		if ctx.Err() == nil {
			c.Observe("leadership ended", err)
			pause(ctx, c.Every) // the database may be away
		}
	}
}

// lead reconciles until leadership ends.
func (c *Controller) lead(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.Reconcile(ctx); err != nil && ctx.Err() == nil {
			c.Observe("reconciling", err)
		}
		pause(ctx, c.Every)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
