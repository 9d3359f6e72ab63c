// Package sqlite keeps leases in a SQLite file: the embedded default, with no
// server. Its customary import name is leasesqlite.
//
// It works with any database/sql driver for SQLite 3.40 or later, opened bare
// or through a driver of this module, and needs the tables that guard.Migrate
// creates. Put the database into WAL mode: otherwise a writer that commits
// also keeps readers out.
//
// # One writer
//
// SQLite lets one transaction write at a time, whatever it writes. So every
// operation but Inspect waits for whoever writes at that moment: a renewal
// too, where the leases are in the same file as the data. Keep the leases in a
// file of their own where guarded transactions are long ([lease.WithFence]
// then brings each token to the file of the data). A write transaction that is
// longer than the TTL loses its own lease. SQLite has no queue: who waits, polls.
//
// # What is durable when
//
//   - Epoch, grant and mark: the transaction of Acquire and Release runs with
//     PRAGMA synchronous = FULL where the connection has less, so they survive
//     a power failure once the call has returned. In a caller's transaction
//     the connection's own setting decides: with WAL and NORMAL, the last
//     commits before a power failure may be gone. The file then is at an
//     earlier point in time as a whole, an epoch can be minted again, and its
//     new grant keeps the two apart.
//   - Expiry after a renewal: as durable as the connection's setting. A lost
//     renewal makes the lease lapse earlier.
//   - A crash of the process alone loses nothing that was committed, whatever
//     the setting. PRAGMA journal_mode = OFF or MEMORY can ruin the file.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// Querier runs statements. *sql.DB, *sql.Conn and *sql.Tx are Queriers.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Store is a [lease.Store] on SQLite. It is safe for concurrent use as far as
// its Querier is: a transaction or a single connection takes one call after
// another.
//
// The bound of a wait counts the time until the write lock of the file is had,
// whoever has it: when it ends, the operation has done nothing, and returns a
// *[lease.BlockedError]. The same happens when the context ends during that
// wait; the error then matches the context's too. A bound of 0 tries once.
type Store struct {
	q    Querier
	turn chan struct{} // full while an operation on the pool has the turn
}

var _ lease.Store = (*Store)(nil)

// New returns a Store on q.
//
// With a *sql.DB each operation takes a connection of the pool for one
// transaction of its own, begun with BEGIN IMMEDIATE; for a connection to
// become free it waits as long as for the lock, but at least half a second.
// The operations of one Store queue for the lock in the order of their arrival,
// so a process should have one Store per file. A *sql.Conn must not be in a
// transaction.
//
// In a *sql.Tx the operation takes part: a rollback undoes it, and the token
// counts only after the commit. An acquire takes the write lock there also
// when it is denied. Begin such a transaction as an immediate one, or make the
// operation its first statement: after it has read, SQLite may refuse it for
// good (SQLITE_BUSY_SNAPSHOT), and the transaction must be rolled back.
func New(q Querier) *Store { return &Store{q: q, turn: make(chan struct{}, 1)} }

// Acquire implements [lease.Store]. An expiry is a multiple of a millisecond.
func (s *Store) Acquire(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	if err := req.Validate(); err != nil {
		return lease.Granted{}, err
	}
	var granted lease.Granted
	err := s.write(ctx, operation{
		resource: req.Resource,
		wait:     req.Wait,
		durable:  true,
		look: func(ctx context.Context, q Querier) error {
			found, err := readState(ctx, q, req.Resource)
			if err != nil {
				return err
			}
			return found.denial(req)
		},
		do: func(ctx context.Context, q Querier) (err error) {
			granted, err = acquire(ctx, q, req)
			return err
		},
	})
	if err != nil {
		return lease.Granted{}, err
	}
	return granted, nil
}

// acquire runs under the write lock, or takes it with its first statement.
func acquire(ctx context.Context, q Querier, req lease.AcquireRequest) (lease.Granted, error) {
	ttl := milliseconds(req.TTL)
	if req.Reentry == lease.ReentryExtend {
		g, err := scanGranted(q.QueryRowContext(ctx, sqlgen.SQLiteLeaseExtend, req.Resource, req.Owner, ttl, req.MinEpoch), req)
		if !errors.Is(err, sql.ErrNoRows) {
			return g, err
		}
	}
	var replace int64
	if req.Reentry != lease.ReentryRefuse {
		replace = 1
	}
	// A lease that lapses between the two statements is denied by neither.
	for range 3 {
		g, err := scanGranted(q.QueryRowContext(ctx, sqlgen.SQLiteLeaseGrant,
			req.Resource, req.Owner, ttl, replace, int64(sqlgen.SchemaVersion), req.MinEpoch), req)
		if err == nil {
			return g, raiseMark(ctx, q, req.Resource)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return lease.Granted{}, err
		}
		found, err := readState(ctx, q, req.Resource)
		if err != nil {
			return lease.Granted{}, err
		}
		if err := found.denial(req); err != nil {
			return lease.Granted{}, err
		}
	}
	return lease.Granted{}, fmt.Errorf("sqlfence: acquire of %q: the clock runs backwards", req.Resource)
}

func scanGranted(row *sql.Row, req lease.AcquireRequest) (lease.Granted, error) {
	var epoch, grant, expiry int64
	if err := row.Scan(&epoch, &grant, &expiry); err != nil {
		return lease.Granted{}, setup(err)
	}
	return lease.Granted{
		Token:  guard.Token{Resource: req.Resource, Epoch: epoch, Grant: grant},
		Expiry: time.UnixMilli(expiry).UTC(),
		TTL:    req.TTL,
	}, nil
}

// raiseMark makes the mark follow the lease, in the lease's transaction.
func raiseMark(ctx context.Context, q Querier, resource string) error {
	result, err := q.ExecContext(ctx, sqlgen.SQLiteLeaseMark, resource)
	if err != nil {
		return setup(err)
	}
	n, err := result.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("sqlfence: raising the mark of %q affected %d rows", resource, n)
	}
	return err
}

// Release implements [lease.Store].
func (s *Store) Release(ctx context.Context, claim lease.Claim, wait time.Duration) error {
	if err := validate(claim); err != nil {
		return err
	}
	if wait < 0 {
		return fmt.Errorf("%w: negative wait %v", lease.ErrInvalidInput, wait)
	}
	return s.write(ctx, operation{
		resource: claim.Token.Resource,
		wait:     wait,
		durable:  true,
		do: func(ctx context.Context, q Querier) error {
			result, err := q.ExecContext(ctx, sqlgen.SQLiteLeaseRelease,
				claim.Token.Resource, claim.Owner, claim.Token.Epoch, claim.Token.Grant)
			if err != nil {
				return setup(err)
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			if n == 0 {
				found, err := readState(ctx, q, claim.Token.Resource)
				if err != nil {
					return err
				}
				return found.loss("release", claim)
			}
			return raiseMark(ctx, q, claim.Token.Resource)
		},
	})
}

// Inspect implements [lease.Store]. It takes no lock; outside WAL mode it
// fails, after half a second, if a writer keeps readers out for so long.
func (s *Store) Inspect(ctx context.Context, resource string) (lease.State, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return lease.State{}, err
	}
	found, err := s.inspect(guard.Without(ctx), resource)
	if err != nil {
		return lease.State{}, err
	}
	return found.public(resource), nil
}

func validate(c lease.Claim) error {
	if err := c.Token.Validate(); err != nil {
		return err
	}
	return guard.ValidateOwner(c.Owner)
}

// milliseconds rounds up: a lease is never shorter than was asked for, but for
// what the clock's own resolution takes.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
