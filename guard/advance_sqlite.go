package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/internal/bound"
	"github.com/sqlfence/sqlfence/internal/door"
	"github.com/sqlfence/sqlfence/sqlgen"
)

const (
	sqliteFull = 2 // of PRAGMA synchronous

	// sqlitePause is between two attempts to get the write lock: see lease/sqlite.
	sqlitePause = time.Millisecond
	// minPoolWait is how long a connection of the pool is waited for at least.
	minPoolWait = 500 * time.Millisecond
)

// advanceInFile is Advance on SQLite.
func (f *Fence) advanceInFile(ctx context.Context, t Token, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch q := f.q.(type) {
	case pool:
		bounded, cancel := ctx, context.CancelFunc(func() {})
		if wait >= 0 {
			bounded, cancel = context.WithTimeout(ctx, max(wait, minPoolWait))
		}
		defer cancel()
		conn, err := q.Conn(bounded)
		if err != nil {
			if ctx.Err() == nil && bounded.Err() != nil {
				err = &BlockedError{Resource: t.Resource, Wait: wait, Err: errors.New("no connection of the pool became free")}
			}
			return err
		}
		defer conn.Close()
		return f.advanceDurably(ctx, conn, t, wait)
	case *sql.Conn:
		return f.advanceDurably(ctx, q, t, wait)
	}
	// SQLite rolls the caller's whole transaction back when a writing statement is
	// interrupted: ctx must not reach it.
	return f.raise(context.WithoutCancel(ctx), f.q, t, sqlgen.AdvanceSQL(f.engine))
}

// advanceDurably makes the commit survive a power failure also where the
// connection is set to PRAGMA synchronous = NORMAL or OFF: the older token's
// storage may not have failed with this one. And no statement waits inside SQLite,
// where not every driver lets a context end it.
func (f *Fence) advanceDurably(ctx context.Context, conn *sql.Conn, t Token, wait time.Duration) (err error) {
	calm := context.WithoutCancel(ctx)
	set := func(pragma string, value int64) error {
		_, err := conn.ExecContext(calm, fmt.Sprintf("PRAGMA %s = %d", pragma, value))
		return err
	}
	var timeout, level int64
	if err := conn.QueryRowContext(calm, "PRAGMA busy_timeout").Scan(&timeout); err != nil {
		return err
	}
	if err := conn.QueryRowContext(calm, "PRAGMA main.synchronous").Scan(&level); err != nil {
		return err
	}
	defer func() {
		var levelErr error
		if level < sqliteFull {
			levelErr = set("main.synchronous", level)
		}
		if restoreErr := errors.Join(levelErr, set("busy_timeout", timeout)); restoreErr != nil {
			discard(conn) // a connection whose state is not known
			err = errors.Join(err, restoreErr)
		}
	}()
	if err := set("busy_timeout", 0); err != nil {
		return err
	}
	if level < sqliteFull {
		if err := set("main.synchronous", sqliteFull); err != nil {
			return err
		}
	}
	if wait < 0 {
		wait = time.Duration(timeout) * time.Millisecond
	}
	return f.poll(ctx, conn, t, bound.New(ctx, wait))
}

// poll raises the mark as soon as nobody else writes: with the door of the file shut,
// so that it comes before those who have not begun yet.
func (f *Fence) poll(ctx context.Context, conn *sql.Conn, t Token, b bound.Bound) error {
	calm := context.WithoutCancel(ctx)
	open, shut, asked := func() {}, false, false
	defer func() { open() }()
	for {
		err := f.raise(calm, conn, t, sqlgen.AdvanceSQL(f.engine))
		if err == nil || isJudged(err) || !isBusy(err) {
			return err
		}
		if !asked {
			asked = true
			var file string
			if conn.QueryRowContext(calm, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file) == nil {
				var opens func()
				if opens, shut, _ = door.Shut(file); shut { // a courtesy: without it the rest polls
					open = opens
				}
			}
		}
		if b.Left() == 0 {
			return &BlockedError{Resource: t.Resource, Wait: b.Total, Err: err}
		}
		if !bound.Pause(ctx, min(sqlitePause, max(b.Left(), 2))) {
			return &BlockedError{Resource: t.Resource, Wait: b.Total, Err: fmt.Errorf("%w: %w", ctx.Err(), err)}
		}
	}
}
