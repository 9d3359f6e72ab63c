package guard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sqlfence/sqlfence/internal/bound"
	"github.com/sqlfence/sqlfence/internal/withdrawal"
	"github.com/sqlfence/sqlfence/sqlgen"
)

const (
	mysqlAdvance  = "CALL sqlfence_advance(UNHEX(CONVERT(? USING ascii)), ?, ?, ?, FALSE)"
	mysqlBlockers = "CALL sqlfence_blockers(?)"
	mysqlCancel   = "CALL sqlfence_cancel(?)"

	mysqlUnknownThread    = 1094
	mysqlKillDenied       = 1095
	mysqlLockWaitTimeout  = 1205
	mysqlQueryInterrupted = 1317

	mysqlMaxWait = 1_000_000 * time.Second
	// mysqlSpare is how many seconds the server waits beyond the bound before it ends
	// a wait by itself, if nobody could tell it to.
	mysqlSpare = 2
)

// advanceByProcedure is Advance on MySQL and MariaDB. A server of this family counts
// its waits in seconds, and does not notice meanwhile that its client has left: the
// procedure would raise the mark later. So the first attempt does not wait; the
// second one does, and is ended by another connection with the bound or the context.
// (See operation in lease/mysql.)
func (f *Fence) advanceByProcedure(ctx context.Context, t Token, wait time.Duration) error {
	b := bound.New(ctx, min(wait, mysqlMaxWait))
	if conn, ok := f.q.(*sql.Conn); ok {
		return f.advanceOnOne(ctx, conn, t, b)
	}
	p, ok := f.q.(pool)
	if !ok { // a transaction: what is given up there is not committed
		return f.advanceThere(ctx, f.q, t, b)
	}
	for try := 1; ; try++ {
		conn, err := p.Conn(ctx)
		if err != nil {
			return err
		}
		err = f.advanceOn(ctx, p, conn, t, b)
		conn.Close()
		if !errors.Is(err, driver.ErrBadConn) || try == 3 { // as database/sql does
			return err
		}
	}
}

// advanceThere is the one attempt where no other connection is at hand.
func (f *Fence) advanceThere(ctx context.Context, q Querier, t Token, b bound.Bound) error {
	err := f.raise(ctx, q, t, mysqlAdvance, b.Seconds())
	if isMySQLBusy(err) {
		return &BlockedError{Resource: t.Resource, Wait: b.Total, Err: err}
	}
	return err
}

// advanceOnOne is Advance on a connection without its pool, where nobody can end a
// wait. The commit is sent from here and not the procedure's, so that the server rolls
// back whatever it goes on with after the context has ended. In a transaction that is
// open already, the commit is the caller's.
func (f *Fence) advanceOnOne(ctx context.Context, conn *sql.Conn, t Token, b bound.Bound) error {
	const noSavepoint = 1305
	if _, err := conn.ExecContext(ctx, "SAVEPOINT sqlfence_advance"); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, "RELEASE SAVEPOINT sqlfence_advance")
	if err != nil && ServerNumber(err) != noSavepoint {
		return err
	}
	if err == nil {
		// A savepoint is there without autocommit too. The procedure would commit a
		// transaction in which nothing has been done yet.
		var version int64
		if err := conn.QueryRowContext(ctx, sqlgen.VersionSQL(sqlgen.MySQL)).Scan(&version); err != nil {
			return f.explain(err, []Token{t})
		}
		return f.advanceThere(ctx, conn, t, b)
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f.advanceThere(ctx, tx, t, b); err != nil {
		return err
	}
	return tx.Commit()
}

func (f *Fence) advanceOn(ctx context.Context, p pool, conn *sql.Conn, t Token, b bound.Bound) error {
	var id int64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID() LIMIT 1").Scan(&id); err != nil {
		return err
	}
	err := f.raise(ctx, conn, t, mysqlAdvance, int64(0))
	switch {
	case isMySQLBusy(err) && b.Left() > 0:
		return f.queueMySQL(ctx, p, conn, id, t, b)
	case isMySQLBusy(err):
		return &BlockedError{Resource: t.Resource, Wait: b.Total, Err: err}
	case isMySQLAnswer(err), errors.Is(err, driver.ErrBadConn):
		return err // or nothing was sent
	}
	discard(conn)
	return withdrawal.Run(ctx, err, stillMoving(t), func(ctx context.Context) error { return endMySQL(ctx, p, id) }, nil)
}

// queueMySQL is the attempt that waits.
func (f *Fence) queueMySQL(ctx context.Context, p pool, conn *sql.Conn, id int64, t Token, b bound.Bound) error {
	// The context does not reach the driver, which would close the connection and
	// leave the server waiting.
	calling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f.raise(calling, conn, t, mysqlAdvance, b.Seconds()+mysqlSpare) }()
	timer := time.NewTimer(b.Left())
	defer timer.Stop()
	blocked := &BlockedError{Resource: t.Resource, Wait: b.Total}
	var cause error
	select {
	case err := <-done:
		if isMySQLBusy(err) {
			blocked.Err = err
			return blocked
		}
		if !isMySQLAnswer(err) {
			discard(conn)
			if errors.Is(err, driver.ErrBadConn) {
				err = errors.New(err.Error()) // not to be tried again: it was sent
			}
			return withdrawal.Run(ctx, err, stillMoving(t), func(ctx context.Context) error { return endMySQL(ctx, p, id) }, nil)
		}
		return err
	case <-timer.C:
		var unseen error
		blocked.Blockers, unseen = f.blockers(ctx, mysqlBlockers, id) // only visible as long as it waits
		blocked.Err = errors.New("sqlfence: the wait for the fence was ended")
		if unseen != nil {
			if known := fromMySQL(unseen); known != nil {
				unseen = known
			}
			blocked.Err = fmt.Errorf("%w; who is in the way could not be asked: %v", blocked.Err, unseen)
		}
		cause = blocked
	case <-ctx.Done():
		cause = ctx.Err()
	}
	defer discard(conn) // what was interrupted leaves its transaction open
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), withdrawal.After)
	defer stop()
	_, _ = p.ExecContext(after, mysqlCancel, id) // what it does not do, the withdrawal does
	var answer error
	ended := false
	select {
	case answer = <-done:
		ended = true
	case <-after.Done():
	}
	switch {
	case !ended: // or the connection was lost meanwhile
	case isMySQLBusy(answer) || ServerNumber(answer) == mysqlQueryInterrupted:
		return cause
	case isMySQLAnswer(answer):
		return answer // it had come to its end before
	}
	err := withdrawal.Run(ctx, cause, stillMoving(t), func(ctx context.Context) error { return endMySQL(ctx, p, id) }, nil)
	if !ended {
		cancel() // the driver closes the connection
		answer = <-done
	}
	if answer == nil || isJudged(answer) {
		return answer
	}
	return err
}

// isMySQLBusy reports whether a wait for the fence was spent, or there was to be none.
func isMySQLBusy(err error) bool {
	const notFree = "SF007"
	number, state, _ := mysqlError(err)
	return number == mysqlLockWaitTimeout || number == mysqlSignal && state == notFree
}

// isMySQLAnswer reports whether the outcome is known: what interrupts a procedure
// may do so after its COMMIT, and leaves its transaction open otherwise.
func isMySQLAnswer(err error) bool {
	number, _, _ := mysqlError(err)
	return err == nil || isJudged(err) || withdrawal.AnsweredMySQL(number) && !slices.Contains(mysqlInterrupted, number)
}

// endMySQL ends a connection whose statement was given up, and returns when it is
// gone. Within the procedure it belongs to the account of the schema, and is not this
// one's to end: so the procedure comes to its end first.
func endMySQL(ctx context.Context, p pool, id int64) error {
	for {
		if _, err := p.ExecContext(ctx, mysqlCancel, id); err != nil {
			return err
		}
		_, err := p.ExecContext(ctx, "KILL "+strconv.FormatInt(id, 10))
		switch number := ServerNumber(err); {
		case number == mysqlUnknownThread:
			return nil
		case err == nil || number == mysqlKillDenied:
			if !bound.Pause(ctx, time.Millisecond) {
				return errors.Join(ctx.Err(), err)
			}
		default:
			return err
		}
	}
}

// discard closes the connection instead of giving it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}
