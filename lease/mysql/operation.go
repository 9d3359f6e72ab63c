package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/internal/bound"
	"github.com/sqlfence/sqlfence/internal/withdrawal"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/connection"
)

// spareSeconds is what the server waits beyond the bound before it ends a wait by
// itself, if nobody could tell it to.
const spareSeconds = 2

// operation is one that may have to wait for open guarded transactions.
//
// A server of this family counts a wait for a lock in seconds, and does not notice
// while it waits that its client has gone: what the client gave up would take effect
// later. So the first attempt does not wait at all, and that is all there is
// where the fence is free: one round trip. Otherwise the number of the connection
// is asked for, the second attempt waits in the server's queue, and whichever ends
// first, the bound or the caller's context, is followed by a KILL QUERY from
// another connection. (Polling instead would starve: nobody who does not queue gets
// past the writers of a busy owner.)
type operation struct {
	store    *Store
	resource string
	bound    bound.Bound
	call     func(db string, seconds int64, own bool) string
	scan     func(*sql.Rows) error

	before   func()                      // each attempt; nil: nothing
	withdraw func(context.Context) error // undoes what may have been done unseen; nil: nothing to undo
	left     string                      // what an operation leaves behind that could not be withdrawn
}

// run runs the operation in a transaction of its own, or in the caller's.
func (o *operation) run(ctx context.Context) error {
	db, err := o.store.qualifier(ctx)
	if err != nil {
		return err
	}
	if o.store.pool != nil {
		return o.store.retry(ctx, func() error { return o.attempt(ctx, db) })
	}
	o.begin()
	err = query(ctx, o.store.q, o.call(db, o.bound.Seconds(), false), o.scan)
	if isBusy(err) {
		return o.blocked(nil, err)
	}
	return err
}

func (o *operation) begin() {
	if o.before != nil {
		o.before()
	}
}

// attempt runs the operation on a connection of the pool. One that turns out to be
// dead before anything was sent is replaced, as database/sql does.
func (o *operation) attempt(ctx context.Context, db string) error {
	for try := 1; ; try++ {
		conn, err := connection.Of(ctx, o.store.pool)
		if err != nil {
			return err
		}
		o.begin()
		err = o.on(ctx, conn, db)
		conn.Close() // back to the pool
		if !errors.Is(err, driver.ErrBadConn) || try == 3 {
			return err
		}
	}
}

func (o *operation) on(ctx context.Context, conn *sql.Conn, db string) error {
	err := query(ctx, conn, o.call(db, 0, true), o.scan)
	switch {
	case err == nil, errors.Is(err, driver.ErrBadConn):
		return err
	case !isAnswer(err):
		connection.Discard(conn) // a transaction may be open on it
		return o.undo(ctx, db, 0, err)
	case !isBusy(err):
		return err
	case o.bound.Left() == 0:
		return o.blocked(nil, err)
	}
	return o.wait(ctx, conn, db)
}

// wait is the attempt that waits.
func (o *operation) wait(ctx context.Context, conn *sql.Conn, db string) error {
	var id int64
	err := query(ctx, conn, "SELECT CONNECTION_ID()", func(rows *sql.Rows) error { return rows.Scan(&id) })
	if err != nil {
		return err
	}
	defer o.store.waits(o.resource, id)()
	// The context does not reach the driver, which would close the connection and
	// leave the server waiting.
	calling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	text := o.call(db, o.bound.Seconds()+spareSeconds, true)
	done := make(chan error, 1)
	go func() { done <- query(calling, conn, text, o.scan) }()
	timer := time.NewTimer(o.bound.Left())
	defer timer.Stop()
	spent := false
	select {
	case err := <-done:
		return o.waited(ctx, conn, db, id, err)
	case <-timer.C:
		spent = true
	case <-ctx.Done():
	}

	after, stop := context.WithTimeout(context.WithoutCancel(ctx), withdrawal.After)
	defer stop()
	var blockers []lease.Blocker
	var unseen error
	if spent {
		blockers, unseen = o.store.blockers(after, db, id) // only visible as long as it waits
	}
	_ = o.store.kill(after, db, id) // what it does not do, undo does
	select {
	case err = <-done:
	case <-after.Done():
		cancel()
		err = <-done // the driver closes the connection
	}
	if isAnswer(err) && !isBusy(err) || err == nil {
		return o.waited(ctx, conn, db, id, err) // it had come to its end before
	}
	connection.Discard(conn)
	cause := ctx.Err()
	if spent {
		if unseen != nil {
			err = fmt.Errorf("%w; who is in the way could not be asked: %v", err, unseen)
		}
		cause = o.blocked(blockers, err)
	}
	return o.undo(ctx, db, id, cause)
}

// waited judges how a wait ended that was not interrupted from here.
func (o *operation) waited(ctx context.Context, conn *sql.Conn, db string, id int64, err error) error {
	switch {
	case err == nil:
		return nil
	case isBusy(err):
		return o.blocked(nil, err)
	case isAnswer(err):
		return err
	}
	connection.Discard(conn)
	if errors.Is(err, driver.ErrBadConn) {
		err = errors.New(err.Error()) // not to be tried again: it was sent
	}
	return o.undo(ctx, db, id, err)
}

// undo makes sure that what was sent, and whose outcome is not known, has no effect
// and will have none. It returns cause, with what is left open if that could not be
// made sure of until shortly after ctx has ended.
func (o *operation) undo(ctx context.Context, db string, id int64, cause error) error {
	if o.withdraw == nil {
		return cause
	}
	return withdrawal.Run(ctx, cause, o.left, func(ctx context.Context) error {
		if err := o.store.kill(ctx, db, id); err != nil {
			return err
		}
		return o.withdraw(ctx)
	}, nil)
}

// blocked is the error of a spent wait.
func (o *operation) blocked(blockers []lease.Blocker, cause error) error {
	return &lease.BlockedError{Resource: o.resource, Wait: o.bound.Total, Blockers: blockers, Err: cause}
}

// kill ends what a connection of ours is doing on the server, if it is an operation
// of this store: the number may be another's on another server behind the same
// address.
func (s *Store) kill(ctx context.Context, db string, id int64) error {
	if id == 0 {
		return nil
	}
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = query(ctx, conn, call(db, "cancel", number(id)), nil)
	if errors.Is(err, errNoRow) {
		return nil
	}
	return err
}
