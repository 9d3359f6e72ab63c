// Package shards is a recipe: processes that share out shards among themselves, each
// owned by one process at a time.
package shards

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// Owner is a process that owns shards. Its leases are renewed together, so that their
// number does not multiply the renewals.
type Owner struct {
	Leases *lease.Manager
	Shards []string // all there are, in every process
	Most   int      // how many this process takes
	// Work works on a shard until ctx ends, and writes with it. When it returns, the
	// shard is free for others.
	Work func(ctx context.Context, shard string) error
	// Failed is told of errors of Work, and of losses. It may be called by several
	// goroutines at once.
	Failed func(shard string, err error)
}

// patience is how long a process waits for one shard before it lets others of its
// goroutines try theirs.
const patience = 200 * time.Millisecond

// Run owns up to Most shards at a time until ctx ends, and returns when all its work
// has ended and its shards are released.
func (o *Owner) Run(ctx context.Context) {
	slots := make(chan struct{}, o.Most)
	var all sync.WaitGroup
	for _, shard := range o.Shards {
		all.Go(func() {
			for {
				select {
				case slots <- struct{}{}:
				case <-ctx.Done():
					return
				}
				err := o.Leases.Hold(ctx, "shard/"+shard, func(ctx context.Context) error {
					return o.Work(ctx, shard)
				}, lease.Wait(patience))
				<-slots
				if ctx.Err() != nil {
					return
				}
				if err != nil && !errors.Is(err, lease.ErrNotAcquirable) {
					o.Failed(shard, err)
				}
			}
		})
	}
	all.Wait()
}
