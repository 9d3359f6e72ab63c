// Package postgres keeps leases in PostgreSQL 13 to 18. Its customary import
// name is leasepg.
//
// It works with any database/sql driver for PostgreSQL whose errors have a
// method SQLState (pgx and lib/pq have), opened bare or through a driver of
// this module, and needs the schema that guard.Migrate creates. Each operation
// is one call of a function of that schema, in one round trip.
//
// # What is durable when
//
//   - Epoch, grant and mark: before Acquire or Release returns, also where the
//     server's default is asynchronous commit.
//   - Expiry after a renewal: as durable as the session's setting makes it. A
//     lost renewal makes the lease lapse earlier.
//
// # Isolation
//
// Under REPEATABLE READ and SERIALIZABLE, also where they are the default of
// autocommit, an operation is either right or fails with SQLSTATE 40001, with
// one exception: an Acquire may report a lease as held that was freed since
// the transaction's snapshot. Outside a transaction of the caller's the
// operation is repeated until ctx ends; inside, it is the caller who repeats
// the transaction.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/bound"
	"github.com/sqlfence/sqlfence/internal/withdrawal"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/answer"
	"github.com/sqlfence/sqlfence/lease/internal/connection"
	"github.com/sqlfence/sqlfence/lease/internal/grant"
	"github.com/sqlfence/sqlfence/lease/internal/listen"
	"github.com/sqlfence/sqlfence/sqlgen"
)

const (
	// maxWait is the largest lock_timeout of the server, which is 31 bits of
	// milliseconds.
	maxWait = (1<<31 - 1) * time.Millisecond
	// maxPause is the longest pause between two attempts of an operation that
	// failed to serialize.
	maxPause = 50 * time.Millisecond
)

// Querier runs a query. *sql.DB, *sql.Conn and *sql.Tx are Queriers.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Store is a [lease.Store] on PostgreSQL. It is safe for concurrent use as far
// as its Querier is.
type Store struct {
	q Querier
	// pool is q, if each statement is a transaction of its own there, on any
	// connection.
	pool pool
	// joined: all statements are part of a transaction of the caller's.
	joined   bool
	listener Listener // nil: nobody is told of releases elsewhere
	hub      listen.Hub
}

// pool is what makes a *sql.DB one.
type pool interface {
	Conn(ctx context.Context) (*sql.Conn, error)
}

var _ lease.Store = (*Store)(nil)

// Option is an option of [New].
type Option func(*Store)

// New returns a Store on q.
//
// With a *sql.DB each operation is a transaction of its own. If its outcome is
// not known (the context ended, or the connection broke, before the answer was
// there), an Acquire is withdrawn by another connection before it returns: a
// lease that it was granted is released, and if it is still on its way the
// server will refuse it. That is tried for 5 s, of which an Acquire whose ctx has
// ended waits for the first 0.4 s; where it has not succeeded by then, the error
// says so: the resource may be held by the request's owner until its TTL ends.
//
// A *sql.Conn has no other connection to withdraw by: what the driver does to a
// connection whose context ends (pgx closes it and cancels the statement) is
// all that stops the request there.
//
// In a *sql.Tx the operation takes part: a rollback undoes it, the token counts
// only after the commit, and until then the resource's guarded writes and
// takeovers wait. An error of the server, a spent wait included, makes the
// transaction fail; a denial does not, and keeps no lock.
func New(q Querier, opts ...Option) *Store {
	s := &Store{q: q}
	s.hub.Listen = s.listen
	for _, opt := range opts {
		opt(s)
	}
	switch q := q.(type) {
	case interface {
		Commit() error
		Rollback() error
	}:
		s.joined = true
	case pool:
		s.pool = q
	}
	return s
}

// Acquire implements [lease.Store]. The wait also ends shortly before ctx's
// deadline; what it waited for is then reported in the same way. An expiry is a
// multiple of a microsecond.
func (s *Store) Acquire(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	if err := req.Validate(); err != nil {
		return lease.Granted{}, err
	}
	var request sql.NullInt64
	if s.pool != nil {
		request = sql.NullInt64{Int64: grant.New(), Valid: true}
	}
	var outcome string
	var epoch, grantID, expires, remaining sql.NullInt64
	var holder sql.NullString
	b := newBound(ctx, req.Wait)
	var sent bool
	err := s.retry(ctx, func() error {
		return s.onConn(ctx, &sent, func(q Querier) error {
			return query(ctx, q, acquireSQL, func(rows *sql.Rows) error {
				return rows.Scan(&outcome, &epoch, &grantID, &expires, &holder, &remaining)
			}, req.Resource, req.Owner, req.TTL.Microseconds(), b.Microseconds(), req.Reentry.String(), request, req.MinEpoch)
		})
	})
	switch {
	case err == nil:
	case isSpent(err):
		return lease.Granted{}, s.blocked(ctx, req.Resource, b.Total, err)
	case sent && s.pool != nil && !isAnswer(err) && guard.WrongEngine(err, sqlgen.PostgreSQL) == nil:
		return lease.Granted{}, s.withdraw(ctx, req, request.Int64, err)
	default:
		return lease.Granted{}, explain(err)
	}
	switch outcome {
	case "ok":
		return lease.Granted{
			Token:  guard.Token{Resource: req.Resource, Epoch: epoch.Int64, Grant: grantID.Int64},
			Expiry: answer.Instant(expires.Int64),
			TTL:    answer.Microseconds(remaining.Int64),
		}, nil
	case "held":
		return lease.Granted{}, &lease.HeldError{
			Resource: req.Resource, Holder: holder.String, Remaining: answer.Microseconds(remaining.Int64),
		}
	}
	return lease.Granted{}, answer.Unexpected("acquire", outcome)
}

// withdraw makes sure that a request to acquire, whose answer was lost, is not
// granted and will not be. It returns cause, with what is left open if that
// could not be made sure of until shortly after ctx has ended.
func (s *Store) withdraw(ctx context.Context, req lease.AcquireRequest, request int64, cause error) error {
	left := fmt.Sprintf("%q may be held by %q for up to %v", req.Resource, req.Owner, req.TTL)
	return withdrawal.Run(ctx, cause, left, func(ctx context.Context) error { return s.abandon(ctx, req.Resource, request) }, isAnswer)
}

func (s *Store) abandon(ctx context.Context, resource string, request int64) error {
	return s.retry(ctx, func() error {
		return query(ctx, s.q, abandonSQL, func(rows *sql.Rows) error {
			return rows.Scan(new(string))
		}, resource, request, newBound(ctx, withdrawal.Time).Microseconds())
	})
}

// Renew implements [lease.Store]. Of several claims, one whose row another
// transaction has locked fails for itself at once; a single claim waits for
// that transaction until shortly before ctx's deadline, at most for its TTL.
func (s *Store) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	return s.renew(ctx, claims, func(op func(Querier) error) error {
		var sent bool
		return s.onConn(ctx, &sent, op)
	})
}

// renew runs its statement where on says.
func (s *Store) renew(ctx context.Context, claims []lease.Claim, on func(op func(Querier) error) error) ([]lease.Renewed, error) {
	renewed := make([]lease.Renewed, len(claims))
	valid := make([]int, 0, len(claims)) // positions in claims
	for i, c := range claims {
		if renewed[i].Err = c.Validate(); renewed[i].Err == nil {
			renewed[i].Err = lease.ValidateTTL(c.TTL)
		}
		if renewed[i].Err == nil {
			valid = append(valid, i)
		}
	}
	if len(valid) == 0 {
		return renewed, nil
	}
	var seen int
	scan := func(rows *sql.Rows) error {
		var position int
		var outcome string
		var expires, epoch, mark sql.NullInt64
		var holder sql.NullString
		if err := rows.Scan(&position, &outcome, &expires, &holder, &epoch, &mark); err != nil {
			return err
		}
		if position < 1 || position > len(valid) {
			return answer.Unexpected("renew", "position "+strconv.Itoa(position))
		}
		seen++
		i := valid[position-1]
		if outcome == "ok" {
			renewed[i] = lease.Renewed{Expiry: answer.Instant(expires.Int64)}
		} else {
			renewed[i] = lease.Renewed{Err: answer.Loss("renew", claims[i], outcome, holder, epoch, mark)}
		}
		return nil
	}
	err := s.retry(ctx, func() error {
		return on(func(q Querier) error {
			seen = 0
			if len(claims) == 1 {
				c := claims[0]
				return query(ctx, q, renewSQL, scan, c.Token.Resource, c.Owner, c.Token.Epoch, c.Token.Grant,
					c.TTL.Microseconds(), newBound(ctx, c.TTL).Microseconds())
			}
			b := newBatch(claims, valid)
			return query(ctx, q, renewBatchSQL, scan, b.resources, b.owners, b.epochs, b.grants, b.ttls)
		})
	})
	if err != nil {
		return nil, explain(err)
	}
	if seen != len(valid) {
		return nil, answer.Unexpected("renew", strconv.Itoa(seen)+" rows")
	}
	return renewed, nil
}

// Release implements [lease.Store]. The wait also ends shortly before ctx's
// deadline.
func (s *Store) Release(ctx context.Context, claim lease.Claim, wait time.Duration) error {
	if err := claim.Validate(); err != nil {
		return err
	}
	if wait < 0 {
		return fmt.Errorf("%w: negative wait %v", lease.ErrInvalidInput, wait)
	}
	var outcome string
	var holder sql.NullString
	var epoch, mark sql.NullInt64
	b := newBound(ctx, wait)
	err := s.retry(ctx, func() error {
		return query(ctx, s.q, releaseSQL, func(rows *sql.Rows) error {
			return rows.Scan(&outcome, &holder, &epoch, &mark)
		}, claim.Token.Resource, claim.Owner, claim.Token.Epoch, claim.Token.Grant, b.Microseconds())
	})
	switch {
	case err == nil:
	case isSpent(err):
		return s.blocked(ctx, claim.Token.Resource, b.Total, err)
	default:
		return explain(err)
	}
	if outcome == "ok" {
		return nil
	}
	return answer.Loss("release", claim, outcome, holder, epoch, mark)
}

// Inspect implements [lease.Store].
func (s *Store) Inspect(ctx context.Context, resource string) (lease.State, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return lease.State{}, err
	}
	var state lease.State
	err := s.retry(ctx, func() error {
		return query(ctx, s.q, inspectSQL, func(rows *sql.Rows) error { return answer.ScanState(rows, &state) }, resource)
	})
	return state, explain(err)
}

// InspectPrefix returns the states of up to limit resources whose names begin
// with prefix and come after the name after, in the order of the names' bytes,
// waiting for no lock. To page on, pass the last name as after.
func (s *Store) InspectPrefix(ctx context.Context, prefix, after string, limit int) ([]lease.State, error) {
	var states []lease.State
	err := s.retry(ctx, func() error {
		states = nil
		return query(ctx, s.q, inspectPrefixSQL, func(rows *sql.Rows) error {
			var state lease.State
			err := answer.ScanState(rows, &state)
			states = append(states, state)
			return err
		}, prefix, after, limit)
	})
	return states, explain(err)
}

// Purge drops up to limit resources that have been free or lapsed for longer
// than idle, and returns their number. Their tokens are unregistered from then
// on, and no epoch of theirs is ever minted again: it raises the epoch at which
// every new resource starts. Resources whose mark was ever moved by Advance,
// and those that are in use at the moment, are left alone; so are those whose epochs
// have passed 2^62. A call drops a thousand at most: call it until it returns 0.
func (s *Store) Purge(ctx context.Context, idle time.Duration, limit int) (int64, error) {
	if idle < 0 || limit < 0 {
		return 0, fmt.Errorf("%w: purge of %d resources idle for %v", lease.ErrInvalidInput, limit, idle)
	}
	var dropped int64
	err := s.retry(ctx, func() error {
		return query(ctx, s.q, purgeSQL, func(rows *sql.Rows) error {
			return rows.Scan(&dropped)
		}, idle.Microseconds(), limit)
	})
	return dropped, explain(err)
}

// query runs one statement and reads its result to the end: only then has the
// server committed it. It never guards it, whatever token ctx carries.
func query(ctx context.Context, q Querier, text string, scan func(*sql.Rows) error, args ...any) error {
	rows, err := q.QueryContext(guard.Without(ctx), text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		found = true
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !found && text != inspectPrefixSQL && text != evictSQL {
		return answer.Unexpected(text, "no row")
	}
	return rows.Close()
}

// onConn runs op on a connection of the pool, if there is one, and sets sent from
// the moment on when the server may know of it. A connection that turns out to
// be dead before anything was sent is replaced, as database/sql does.
func (s *Store) onConn(ctx context.Context, sent *bool, op func(Querier) error) error {
	if s.pool == nil {
		*sent = true
		return op(s.q)
	}
	for attempt := 1; ; attempt++ {
		conn, err := connection.Of(ctx, s.pool)
		if err != nil {
			return err
		}
		before := *sent
		*sent = true
		err = op(conn)
		conn.Close() // back to the pool
		if !errors.Is(err, driver.ErrBadConn) {
			return err
		}
		*sent = before
		if attempt == 3 {
			return err
		}
	}
}

// retry repeats an operation that failed to serialize, until ctx ends: unless
// it is part of a transaction of the caller's, it has had no effect.
func (s *Store) retry(ctx context.Context, op func() error) error {
	var first error
	for length := time.Millisecond; ; length = min(2*length, maxPause) {
		if err := ctx.Err(); err != nil && first == nil {
			return err
		}
		err := op()
		switch {
		case err == nil:
			return nil
		case isState(err, inFailedTransaction) && first != nil:
			// A *sql.Conn in a transaction that was begun by SQL text.
			return first
		case s.joined || !isState(err, serializationFailure, deadlockDetected):
			return err
		}
		first = err
		if !bound.Pause(ctx, length) {
			return err
		}
	}
}

// blocked returns the error of a spent wait, with those who hold the fence now.
// Inside a transaction of the caller's, which has failed, nobody can be asked.
func (s *Store) blocked(ctx context.Context, resource string, wait time.Duration, cause error) error {
	blocked := &lease.BlockedError{Resource: resource, Wait: wait, Err: cause}
	if s.joined {
		return blocked
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawal.After)
	defer cancel()
	rows, err := s.q.QueryContext(guard.Without(after), blockersSQL, resource)
	if err != nil {
		return blocked
	}
	defer rows.Close()
	for rows.Next() {
		var pid, age sql.NullInt64
		var application, prepared sql.NullString
		if rows.Scan(&pid, &application, &age, &prepared) != nil {
			break
		}
		blocked.Blockers = append(blocked.Blockers, lease.Blocker{
			PID: pid.Int64, Application: application.String, Age: answer.Microseconds(age.Int64), Prepared: prepared.String,
		})
	}
	return blocked
}

// newBound returns wait as the server takes it, cut to what ctx's deadline leaves.
func newBound(ctx context.Context, wait time.Duration) bound.Bound {
	return bound.New(ctx, min(wait, maxWait))
}

// batch is what a renewal of many leases sends: arrays in the server's text
// form, which every driver sends alike.
type batch struct{ resources, owners, epochs, grants, ttls string }

func newBatch(claims []lease.Claim, positions []int) batch {
	var resources, owners, epochs, grants, ttls array
	for _, i := range positions {
		c := claims[i]
		resources.text(c.Token.Resource)
		owners.text(c.Owner)
		epochs.int(c.Token.Epoch)
		grants.int(c.Token.Grant)
		ttls.int(c.TTL.Microseconds())
	}
	return batch{resources.String(), owners.String(), epochs.String(), grants.String(), ttls.String()}
}

// array builds the text form of an array.
type array struct{ b strings.Builder }

func (a *array) next() {
	if a.b.Len() == 0 {
		a.b.WriteByte('{')
	} else {
		a.b.WriteByte(',')
	}
}

func (a *array) int(n int64) {
	a.next()
	a.b.WriteString(strconv.FormatInt(n, 10))
}

func (a *array) text(s string) {
	a.next()
	a.b.WriteByte('"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			a.b.WriteByte('\\')
		}
		a.b.WriteByte(s[i])
	}
	a.b.WriteByte('"')
}

func (a *array) String() string {
	if a.b.Len() == 0 {
		return "{}"
	}
	return a.b.String() + "}"
}
