// Package lease says who owns a resource, for how long, and with which fencing
// token.
//
// A [Manager] takes leases from a [Store] (sub-packages: postgres, mysql,
// sqlite, redis, memory) and keeps them alive. Most programs need one call:
//
//	leases, err := lease.NewManager(store, lease.TTL(30*time.Second))
//	…
//	err = leases.Hold(ctx, "job-42", func(ctx context.Context) error {
//		_, err := db.ExecContext(ctx, `UPDATE jobs SET status = $1 WHERE id = $2`, "done", 42)
//		return err
//	})
//
// Hold acquires, renews in the background, hands fn a context that carries the
// token and ends when the lease is lost, and releases. By hand it is
// [Manager.Acquire] or [Manager.TryAcquire], [Lease.KeepAlive] and
// [Lease.Release].
//
// # What a lease is good for
//
// Expiry is judged by the store's clock. What a holder knows of it locally, the
// deadline and the end of its context, is a courtesy that stops work early; it
// is never what safety rests on, because a process may be suspended between any
// look at a clock and the write that follows. Safety rests on the token: each
// grant has a greater epoch than all before it, and a database opened with one
// of the driver packages refuses a write under an older one.
//
// # Choosing a TTL
//
// A TTL is how long others wait when a holder dies, and how long a holder can
// be without the store before it stops. Renewals are sent every TTL/3, so it
// should be many times the worst round trip plus the longest pause of the
// process. 10 s to 60 s suits most programs; with less than 2 s expect losses of no
// cause. [MinTTL] is only where rounding would begin to matter.
//
// # Connections
//
// A renewal that waits for a connection is a renewal that is late.
// Where the pool is bounded, the stores of SQL databases keep one connection for the
// renewals, see [Reserver]. Otherwise a pool that the program's own transactions can use up
// starves them, so give the store a pool of its own where that can happen, and
// not a single connection: an Acquire may queue for as long as transactions are
// open, while others are to be renewed. A manager uses one connection per Acquire
// and Release at work, one for the renewals, and up to four for leases whose row
// was locked.
//
// # Same owner
//
// The owner is the manager, by default under a name that no other manager has.
// A second Acquire of a resource that the same owner holds gets a new, greater
// token and thereby fences the first, whose context ends at once, see [Reentry]:
// two handles never share a token unless [ReentryExtend] asks for it. Goroutines
// that shall exclude each other under one owner, a pool of workers with one
// manager say, need [OnReentry]([ReentryRefuse]).
package lease
