package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
)

func ExampleManager_Hold() {
	leases, err := lease.NewManager(memory.New(), lease.TTL(30*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Close()

	ctx := context.Background()
	err = leases.Hold(ctx, "job-42", func(ctx context.Context) error {
		// Every write with this ctx is guarded by the token, and ctx ends when
		// the lease is lost.
		for _, t := range guard.Tokens(ctx) {
			fmt.Println("working on", t.Resource, "under epoch", t.Epoch)
		}
		return nil
	})
	fmt.Println("error:", err)

	state, _ := leases.Inspect(ctx, "job-42")
	fmt.Println("afterwards:", state.Status)
	// Output:
	// working on job-42 under epoch 1
	// error: <nil>
	// afterwards: free
}

func ExampleManager_TryAcquire() {
	ctx := context.Background()
	store := memory.New()
	first, _ := lease.NewManager(store, lease.Owner("worker-1"))
	second, _ := lease.NewManager(store, lease.Owner("worker-2"))

	held, err := first.TryAcquire(ctx, "job-42")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = second.TryAcquire(ctx, "job-42")
	var denied *lease.HeldError
	if errors.As(err, &denied) {
		fmt.Println("held by", denied.Holder)
	}

	if err := held.Release(ctx); err != nil {
		fmt.Println(err)
	}
	taken, err := second.TryAcquire(ctx, "job-42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("a greater epoch:", taken.Token().Epoch > held.Token().Epoch)
	// Output:
	// held by worker-1
	// a greater epoch: true
}

func ExampleLease_KeepAlive() {
	leases, _ := lease.NewManager(memory.New())
	l, err := leases.Acquire(context.Background(), "shard/7", lease.Wait(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := l.KeepAlive(context.Background()) // renews until the release
	fmt.Println("before:", ctx.Err())

	if err := l.Release(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println("after:", context.Cause(ctx))
	fmt.Println("a loss:", errors.Is(context.Cause(ctx), lease.ErrLost))
	// Output:
	// before: <nil>
	// after: sqlfence: ownership lost: released by its holder
	// a loss: true
}

func ExampleWait() {
	ctx := context.Background()
	store := memory.New()
	first, _ := lease.NewManager(store, lease.Owner("node-a"))
	second, _ := lease.NewManager(store, lease.Owner("node-b"))
	if _, err := first.TryAcquire(ctx, "nightly-report"); err != nil {
		fmt.Println(err)
		return
	}

	// A job that runs on one node, and is skipped on all others.
	err := second.Hold(ctx, "nightly-report", func(ctx context.Context) error {
		fmt.Println("reporting")
		return nil
	}, lease.Wait(0))
	if errors.Is(err, lease.ErrNotAcquirable) {
		fmt.Println("another node does it")
	}
	// Output:
	// another node does it
}
