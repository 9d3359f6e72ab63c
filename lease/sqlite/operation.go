package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/connection"
)

const (
	// untilContextEnds is the bound of a wait that has none.
	untilContextEnds = -1

	// minPoolWait is how long a connection of the pool is waited for at least:
	// a full pool says nothing of the lock.
	minPoolWait = 500 * time.Millisecond

	// inspectWait bounds the retries of a read that a committing writer keeps
	// out, which happens outside WAL mode only.
	inspectWait = 500 * time.Millisecond

	// The lock has no queue, so who polls more often gets it sooner. SQLite's
	// own waiters poll at intervals of up to 100 ms; a takeover must not come
	// last (DESIGN §4). Behind writers that come back at once, 1 ms waits half
	// as long as 4 ms do, and no longer than 0.1 ms does.
	pauseBetweenAttempts = time.Millisecond
)

// operation is one operation of the store: what it looks at before it asks for
// the write lock, and what it does under the lock.
type operation struct {
	resource string
	wait     time.Duration    // for the lock; untilContextEnds if negative
	durable  bool             // whether the commit must survive a power failure
	kept     *connection.Kept // where it runs; nil: on any connection of the pool
	look     func(context.Context, Querier) error
	do       func(context.Context, Querier) error
}

// write runs the operation under the write lock, in a transaction of its own
// or in the caller's.
//
// No statement waits inside SQLite, where not every driver lets a context end
// it: the connection's busy timeout is 0 meanwhile, and the waiting is done
// here, between attempts that leave nothing behind. After ctx has ended,
// nothing is committed.
func (s *Store) write(ctx context.Context, op operation) error {
	ctx = guard.Without(ctx)
	w := &waiter{op: op, start: time.Now()}

	// Bounds what waits elsewhere: for the pool, and with a shared cache.
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if op.wait >= 0 {
		bounded, cancel = context.WithTimeout(ctx, max(op.wait, minPoolWait))
	}
	defer cancel()

	switch q := s.q.(type) {
	case connection.Pool:
		if op.look != nil {
			if err := op.look(bounded, s.q); err != nil && !isBusy(err) {
				return w.noConnection(ctx, bounded, err)
			}
		}
		if !w.takeTurn(ctx, s.turn) {
			return w.blocked(ctx, errors.New("other operations of this store came first"))
		}
		defer func() { <-s.turn }()
		run := func(conn *sql.Conn) error { return w.own(ctx, bounded, conn) }
		if op.kept != nil {
			return op.kept.Do(bounded, run)
		}
		conn, err := connection.Of(bounded, q)
		if err != nil {
			return w.noConnection(ctx, bounded, err)
		}
		defer conn.Close()
		return run(conn)
	case *sql.Conn:
		return w.own(ctx, bounded, q)
	default:
		return w.takePart(ctx, q)
	}
}

// takeTurn waits for the other operations of the store: they need the same lock,
// and their order here is that of their arrival. It returns false when the
// bound or ctx has ended.
func (w *waiter) takeTurn(ctx context.Context, turn chan<- struct{}) bool {
	select {
	case turn <- struct{}{}:
		return true
	default:
	}
	var bound <-chan time.Time
	if w.op.wait >= 0 {
		timer := time.NewTimer(w.op.wait)
		defer timer.Stop()
		bound = timer.C
	}
	select {
	case turn <- struct{}{}:
		return true
	case <-bound:
	case <-ctx.Done():
	}
	return false
}

// noConnection is the error of an operation that got as far as the pool.
func (w *waiter) noConnection(ctx, bounded context.Context, err error) error {
	if ctx.Err() == nil && bounded.Err() != nil && errors.Is(err, bounded.Err()) {
		return w.blocked(ctx, errors.New("no connection of the pool became free"))
	}
	return err
}

// own runs the operation in a transaction of its own on the connection.
func (w *waiter) own(ctx, bounded context.Context, conn *sql.Conn) (err error) {
	restore, err := w.prepare(bounded, conn)
	defer func() {
		// A connection whose state is not known must not be used again.
		if restoreErr := restore(); restoreErr != nil {
			connection.Discard(conn)
		}
	}()
	if err != nil {
		return w.outcome(ctx, bounded, err)
	}
	defer w.open()
	for {
		err := w.attempt(ctx, bounded, conn)
		if err == nil || !isBusy(err) {
			return w.outcome(ctx, bounded, err)
		}
		w.busy = err
		for again := false; !again; again = w.atDoor(ctx, bounded, conn) {
			if !w.pause(ctx) {
				return w.blocked(ctx, err)
			}
		}
	}
}

func (w *waiter) attempt(ctx, bounded context.Context, conn *sql.Conn) error {
	if w.op.look != nil {
		if err := w.op.look(bounded, conn); err != nil {
			return err
		}
	}
	if _, err := conn.ExecContext(bounded, "BEGIN IMMEDIATE"); err != nil {
		// The lock may have been had all the same, if bounded ended just then.
		if bounded.Err() != nil {
			connection.Discard(conn)
		}
		return err
	}
	err := w.op.do(bounded, conn)
	if err == nil {
		err = ctx.Err() // who gave up gets nothing
	}
	if err == nil {
		err = w.commit(ctx, conn)
	}
	if err != nil {
		if _, rollbackErr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); rollbackErr != nil {
			connection.Discard(conn)
		}
	}
	return err
}

// commit commits. Outside WAL mode it waits for readers, and keeps new ones
// out meanwhile. It is never interrupted, so its outcome is known.
func (w *waiter) commit(ctx context.Context, conn *sql.Conn) error {
	for {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "COMMIT")
		if err == nil || !isBusy(err) || !w.pause(ctx) {
			return err
		}
	}
}

const savepoint = "sqlfence_lease"

// takePart runs the operation in the caller's transaction. The context never
// reaches a statement: SQLite rolls the whole transaction back when a writing
// statement is interrupted, and the caller's next statements would then be
// committed one by one.
func (w *waiter) takePart(ctx context.Context, q Querier) error {
	calm := context.WithoutCancel(ctx)
	restore, err := w.prepare(calm, q)
	if err == nil {
		err = w.attempts(ctx, calm, q)
	}
	if restoreErr := restore(); restoreErr != nil {
		return errors.Join(err, restoreErr)
	}
	return err
}

func (w *waiter) attempts(ctx, calm context.Context, q Querier) error {
	for {
		if err := ctx.Err(); err != nil {
			return w.outcome(ctx, ctx, err)
		}
		err := w.attemptWithin(ctx, calm, q)
		switch {
		case err == nil || !isBusy(err):
			return err
		case isStale(err):
			return fmt.Errorf("sqlfence: %q: the transaction has read before somebody else wrote, and can no longer write: "+
				"roll it back, and begin it as an immediate one: %w", w.op.resource, err)
		case !w.pause(ctx):
			return w.blocked(ctx, err)
		}
		w.busy = err
	}
}

// attemptWithin leaves all or nothing of the operation in the transaction.
func (w *waiter) attemptWithin(ctx, calm context.Context, q Querier) error {
	if _, err := q.ExecContext(calm, "SAVEPOINT "+savepoint); err != nil {
		return err
	}
	err := w.op.do(calm, q)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if _, undoErr := q.ExecContext(calm, "ROLLBACK TO "+savepoint); undoErr != nil {
			return errors.Join(err, undoErr)
		}
	}
	if _, releaseErr := q.ExecContext(calm, "RELEASE "+savepoint); releaseErr != nil {
		return errors.Join(err, releaseErr)
	}
	return err
}

// prepare makes the connection fit for the operation, and returns what undoes
// that: settings of a session never outlive an operation.
func (w *waiter) prepare(ctx context.Context, q Querier) (restore func() error, err error) {
	calm := context.WithoutCancel(ctx)
	var undo []string
	restore = func() (err error) {
		for _, u := range undo {
			_, e := q.ExecContext(calm, u)
			err = errors.Join(err, e)
		}
		return err
	}

	var timeout int64
	if err := q.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&timeout); err != nil {
		return restore, err
	}
	if timeout != 0 {
		undo = append(undo, fmt.Sprintf("PRAGMA busy_timeout = %d", timeout))
		if _, err := q.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
			return restore, err
		}
	}

	// Inside a transaction the level cannot be changed.
	if _, own := q.(*sql.Conn); !own || !w.op.durable {
		return restore, nil
	}
	const full = 2
	var level int64
	if err := q.QueryRowContext(ctx, "PRAGMA main.synchronous").Scan(&level); err != nil {
		return restore, err
	}
	if level < full {
		undo = append(undo, fmt.Sprintf("PRAGMA main.synchronous = %d", level))
		if _, err := q.ExecContext(ctx, "PRAGMA main.synchronous = FULL"); err != nil {
			return restore, err
		}
	}
	return restore, nil
}

// waiter is one operation in progress and its wait for the lock.
type waiter struct {
	op    operation
	start time.Time
	busy  error // the last refusal, if the lock was not had at first
	turn  turn  // at the door
}

// pause waits a moment; it returns false when the bound or ctx has ended.
func (w *waiter) pause(ctx context.Context) bool {
	d := pauseBetweenAttempts/2 + rand.N(pauseBetweenAttempts) // rivals must not keep step
	if w.op.wait >= 0 {
		left := w.op.wait - time.Since(w.start)
		if left <= 0 {
			return false
		}
		d = min(d, left)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// blocked is the error of a wait that ended without the lock.
func (w *waiter) blocked(ctx context.Context, err error) error {
	waited := w.op.wait
	if ctx.Err() != nil {
		waited = time.Since(w.start).Round(time.Millisecond)
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return &lease.BlockedError{Resource: w.op.resource, Wait: waited, Err: err}
}

// outcome makes an error of what ended while the lock was waited for one about
// that wait, and leaves every other as it is.
func (w *waiter) outcome(ctx, bounded context.Context, err error) error {
	switch {
	case err == nil || bounded.Err() == nil || !errors.Is(err, bounded.Err()):
		return err
	case ctx.Err() == nil: // the bound ended, which is no error of a context of the caller's
		return w.blocked(ctx, errors.New(err.Error()))
	case w.busy != nil:
		return w.blocked(ctx, w.busy)
	}
	return err
}

func (s *Store) inspect(ctx context.Context, resource string) (state, error) {
	w := &waiter{op: operation{resource: resource, wait: inspectWait}, start: time.Now()}
	for {
		found, err := readState(ctx, s.q, resource)
		if err == nil || !isBusy(err) || !w.pause(ctx) {
			return found, err
		}
	}
}

// The result codes of SQLite: https://www.sqlite.org/rescode.html
const (
	codeBusy         = 5
	codeLocked       = 6
	codeProtocol     = 15 // too many rivals on the way into WAL mode
	codeBusySnapshot = codeBusy | 2<<8
)

// isBusy reports whether somebody else had a lock, so that the same may
// succeed later. modernc.org/sqlite tells by a method and mattn/go-sqlite3 by a
// field; of others, SQLite's text is asked, which is never translated.
func isBusy(err error) bool {
	if code, ok := resultCode(err); ok {
		primary := code & 0xff
		return primary == codeBusy || primary == codeLocked || primary == codeProtocol
	}
	text := err.Error()
	return strings.Contains(text, "database is locked") || strings.Contains(text, "database table is locked") ||
		strings.Contains(text, "SQLITE_BUSY")
}

// isStale reports whether the transaction's snapshot is too old to write.
func isStale(err error) bool {
	code, ok := resultCode(err)
	return ok && code == codeBusySnapshot
}

// resultCode returns SQLite's extended result code, where the driver's error
// tells it.
func resultCode(err error) (int, bool) {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code(), true
	}
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.ValueOf(err)
		if v.Kind() != reflect.Struct {
			continue
		}
		if code := v.FieldByName("ExtendedCode"); code.IsValid() && code.CanInt() {
			return int(code.Int()), true
		}
	}
	return 0, false
}
