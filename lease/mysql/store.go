// Package mysql keeps leases in MariaDB 10.6 and later, and in MySQL 8.0.29 and
// later. Its customary import name is leasemysql.
//
// It works with github.com/go-sql-driver/mysql, opened bare or through a driver of
// this module, and needs the schema that guard.Migrate creates in the database of
// the application. Each operation is one call of a procedure of that schema, in one
// round trip, unless it has to wait.
//
// # What is durable when
//
//   - Epoch, grant and mark: as innodb_flush_log_at_trx_commit has it, which no
//     session can change for itself. With 1, its default, before Acquire or Release
//     returns. With 2 a crash of the machine, and with 0 a crash of the server, may
//     undo the last second: two holders may then have the same epoch, but never
//     the same grant, and one of them is refused.
//   - Expiry after a renewal: likewise. A lost renewal makes the lease lapse
//     earlier.
//
// # In a transaction of the caller's
//
// The operation takes part in a *sql.Tx: a rollback undoes it, the token counts only
// after the commit, and until then the resource's guarded writes and takeovers
// wait. It is right under every isolation level, with one exception: an Acquire may
// report a lease as held that was freed since the snapshot of a REPEATABLE READ
// transaction. Its wait is in whole seconds, rounded up. An error leaves the
// transaction as it was before, except a deadlock (1213), which ends it, and a lock
// that it has come to hold.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/bound"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/answer"
	"github.com/sqlfence/sqlfence/lease/internal/grant"
)

const (
	// maxWait is the largest bound of a wait.
	maxWait = 1_000_000 * time.Second
	// maxPause is the longest pause between two attempts of an operation that
	// met a deadlock, or of a renewal whose row is locked.
	maxPause = 50 * time.Millisecond
)

// Querier runs a query. *sql.DB, *sql.Conn and *sql.Tx are Queriers.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Store is a [lease.Store] on MariaDB or MySQL. It is safe for concurrent use as
// far as its Querier is.
type Store struct {
	q    Querier
	pool pool // q, if each operation is a transaction of its own there

	mu       sync.Mutex
	database string // that the schema is in; "" until it is known
	waiting  map[waiting]bool
}

// connector runs an operation on some connection.
type connector func(ctx context.Context, op func(Querier) error) error

// pool is what makes a *sql.DB one.
type pool interface {
	Querier
	Conn(ctx context.Context) (*sql.Conn, error)
}

var (
	_ lease.Store   = (*Store)(nil)
	_ lease.Evicter = (*Store)(nil)
)

// Option is an option of [New].
type Option func(*Store)

// Database names the database that holds the schema. Without it, a Store on a
// *sql.DB asks its first connection in which database it is, once; a Store on
// anything else takes the one that its connection is in at each operation.
func Database(name string) Option { return func(s *Store) { s.database = name } }

// New returns a Store on q.
//
// With a *sql.DB each operation is a transaction of its own. If its outcome is
// not known (the context ended, or the connection broke, before the answer was
// there), an Acquire is ended on the server and withdrawn by another connection
// before it returns: a lease that it was granted is released, and if it is still on
// its way the server will refuse it. That is tried for 5 s, of which an Acquire
// whose ctx has ended waits for the first 0.4 s; where it has not succeeded by
// then, the error says so: the resource may be held by the request's owner until
// its TTL ends.
//
// With a *sql.Conn or *sql.Tx there is no other connection: the driver closes that
// one if the context ends, and what the server is waiting for goes on until the
// wait's bound there. In a transaction that can have no effect any more.
func New(q Querier, opts ...Option) *Store {
	s := &Store{q: q}
	if p, ok := q.(pool); ok {
		s.pool = p
	}
	for _, opt := range opts {
		opt(s)
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
	var outcome string
	var epoch, grantID, expires, remaining sql.NullInt64
	var holder sql.NullString
	var request int64
	op := &operation{
		store: s, resource: req.Resource, bound: newBound(ctx, req.Wait),
		call: func(db string, wait int64, own bool) string {
			return call(db, "acquire", name(req.Resource), name(req.Owner), number(req.TTL.Microseconds()), number(wait),
				number(int64(req.Reentry)), number(request), number(req.MinEpoch), truth(own))
		},
		scan: func(rows *sql.Rows) error {
			return rows.Scan(&outcome, &epoch, &grantID, &expires, &holder, &remaining)
		},
	}
	// Another number for each attempt: one that the server ended counts as
	// abandoned.
	op.before = func() { request = grant.New() }
	op.withdraw = func(ctx context.Context) error { return s.abandon(ctx, req.Resource, request) }
	op.left = fmt.Sprintf("%q may be held by %q for up to %v", req.Resource, req.Owner, req.TTL)
	if err := op.run(ctx); err != nil {
		return lease.Granted{}, explain(err)
	}
	switch outcome {
	case "ok":
		token := guard.Token{Resource: req.Resource, Epoch: epoch.Int64, Grant: grantID.Int64}
		if err := token.Validate(); err != nil {
			return lease.Granted{}, answer.Unexpected("acquire", err.Error())
		}
		return lease.Granted{Token: token, Expiry: answer.Instant(expires.Int64), TTL: answer.Microseconds(remaining.Int64)}, nil
	case "held":
		return lease.Granted{}, &lease.HeldError{
			Resource: req.Resource, Holder: holder.String, Remaining: answer.Microseconds(remaining.Int64),
		}
	}
	return lease.Granted{}, answer.Unexpected("acquire", outcome)
}

// abandon makes sure that a request to acquire does not take effect any more.
func (s *Store) abandon(ctx context.Context, resource string, request int64) error {
	return s.query(ctx, func(db string) string {
		return call(db, "abandon", name(resource), number(request), number(grant.New()), number(1))
	}, func(rows *sql.Rows) error { return rows.Scan(new(string)) })
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
	op := &operation{
		store: s, resource: claim.Token.Resource, bound: newBound(ctx, wait),
		call: func(db string, wait int64, own bool) string {
			return call(db, "release", name(claim.Token.Resource), name(claim.Owner), number(claim.Token.Epoch), number(claim.Token.Grant),
				number(wait), number(grant.New()), truth(own))
		},
		scan: func(rows *sql.Rows) error { return rows.Scan(&outcome, &holder, &epoch, &mark) },
	}
	if err := op.run(ctx); err != nil {
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
	err := s.query(ctx, func(db string) string { return call(db, "inspect", name(resource)) },
		func(rows *sql.Rows) error { return answer.ScanState(rows, &state) })
	return state, explain(err)
}

// InspectPrefix returns the states of up to limit resources whose names begin
// with prefix and come after the name after, in the order of the names' bytes,
// waiting for no lock. To page on, pass the last name as after.
func (s *Store) InspectPrefix(ctx context.Context, prefix, after string, limit int) ([]lease.State, error) {
	if len(prefix) > guard.MaxResourceBytes || len(after) > guard.MaxResourceBytes {
		return nil, fmt.Errorf("%w: a name of more than %d bytes", lease.ErrInvalidInput, guard.MaxResourceBytes)
	}
	var states []lease.State
	err := s.query(ctx, func(db string) string {
		return call(db, "inspect_prefix", name(prefix), name(after), number(int64(limit)))
	}, func(rows *sql.Rows) error {
		var state lease.State
		err := answer.ScanState(rows, &state)
		states = append(states, state)
		return err
	})
	if errors.Is(err, errNoRow) {
		err = nil
	}
	return states, explain(err)
}

// Purge drops up to limit resources that have been free or lapsed for longer
// than idle, and returns their number. Their tokens are unregistered from then
// on, and no epoch of theirs is ever minted again: it raises the epoch at which
// every new resource starts. Resources whose mark was ever moved by Advance,
// those that are in use at the moment, and those whose epochs have passed 2^62, are
// left alone.
func (s *Store) Purge(ctx context.Context, idle time.Duration, limit int) (int64, error) {
	if idle < 0 || limit < 0 {
		return 0, fmt.Errorf("%w: purge of %d resources idle for %v", lease.ErrInvalidInput, limit, idle)
	}
	var dropped int64
	err := s.retry(ctx, func() error {
		return s.query(ctx, func(db string) string {
			return call(db, "purge", number(idle.Microseconds()), number(int64(limit)), truth(s.pool != nil))
		}, func(rows *sql.Rows) error { return rows.Scan(&dropped) })
	})
	return dropped, explain(err)
}

// query makes a call, of which half cannot remain.
func (s *Store) query(ctx context.Context, text func(db string) string, scan func(*sql.Rows) error) error {
	db, err := s.qualifier(ctx)
	if err != nil {
		return err
	}
	return s.onConn(ctx, func(q Querier) error { return query(ctx, q, text(db), scan) })
}

// qualifier returns the quoted name of the database with its dot, or "" for
// whichever the connection is in. A pool is asked once: another database that one
// of its connections was switched to may hold a schema, too.
func (s *Store) qualifier(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.database == "" {
		if s.pool == nil {
			return "", nil
		}
		var found sql.NullString
		if err := query(ctx, s.q, "SELECT DATABASE()", func(rows *sql.Rows) error { return rows.Scan(&found) }); err != nil {
			return "", err
		}
		if found.String == "" {
			return "", &guard.SetupError{Problem: "the connection is in no database", Remedy: "name one in the data source name, or use leasemysql.Database"}
		}
		s.database = found.String
	}
	return quote(s.database) + ".", nil
}

var errNoRow = errors.New("sqlfence: no row")

// query runs one statement and reads its result to the end: only then does the
// driver know how it ended. It never guards it, whatever token ctx carries.
func query(ctx context.Context, q Querier, text string, scan func(*sql.Rows) error) error {
	rows, err := q.QueryContext(guard.Without(ctx), text)
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
	if err := rows.Close(); err != nil { // reads the status that follows a procedure's rows
		return err
	}
	if !found {
		return errNoRow
	}
	return nil
}

// retry repeats an operation that met a deadlock, until ctx ends: unless it is part
// of a transaction of the caller's, it has had no effect.
func (s *Store) retry(ctx context.Context, op func() error) error {
	for length := time.Millisecond; ; length = min(2*length, maxPause) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := op()
		if err == nil || s.pool == nil || !isNumber(err, deadlock, checkRead) || !bound.Pause(ctx, length) {
			return err
		}
	}
}

// newBound returns wait as the server takes it, cut to what ctx's deadline leaves.
func newBound(ctx context.Context, wait time.Duration) bound.Bound {
	return bound.New(ctx, min(wait, maxWait))
}
