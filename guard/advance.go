package guard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/internal/bound"
	"github.com/sqlfence/sqlfence/internal/withdrawal"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// advanceWait is how long Advance waits for guarded transactions.
const advanceWait = 10 * time.Second

// pool is what makes a *sql.DB one.
type pool interface {
	Querier
	Conn(context.Context) (*sql.Conn, error)
}

// Advance raises the mark to the token: for tokens issued elsewhere. Once it
// has returned nil, no write with an older token becomes visible. It returns
// nil also if the mark is there already with the same grant, and a
// *[FencedError] if the mark is higher or belongs to another grant.
//
// On PostgreSQL, MySQL and MariaDB it waits, bounded by ctx and by 10 s, for
// guarded transactions that are open under an older token. On SQLite it waits
// for whoever writes, as long as the connection's busy timeout. If the wait is
// spent, the error is a *[BlockedError]. In a caller's transaction it counts from
// the commit on.
//
// With a *sql.DB, once an error was returned the mark is not moved any more: what
// was sent is withdrawn, for up to 5 s, of which a caller whose ctx has ended waits
// for the first 0.4 s. Where it could not be withdrawn by then, the error says so.
// With a *sql.Conn of MySQL or MariaDB the server rolls back what it goes on with after
// ctx has ended, when it has waited its seconds.
func (f *Fence) Advance(ctx context.Context, t Token) error { return f.advance(ctx, t, -1) }

// AdvanceWithin is [Fence.Advance] that waits at most for wait, 0 or more, and until
// shortly before ctx's deadline. In a caller's transaction MySQL and MariaDB wait in
// whole seconds, rounded up, and SQLite as long as the connection's busy timeout.
func (f *Fence) AdvanceWithin(ctx context.Context, t Token, wait time.Duration) error {
	if wait < 0 {
		return fmt.Errorf("%w: negative wait %v", ErrInvalidInput, wait)
	}
	return f.advance(ctx, t, wait)
}

// advance waits for as long as Advance does if wait is negative.
func (f *Fence) advance(ctx context.Context, t Token, wait time.Duration) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := known(f.engine); err != nil {
		return err
	}
	err := f.advanceOnEngine(Without(ctx), t, wait)
	if wrong := WrongEngine(err, f.engine); wrong != nil {
		return wrong
	}
	return err
}

func (f *Fence) advanceOnEngine(ctx context.Context, t Token, wait time.Duration) error {
	if f.engine == sqlgen.SQLite {
		return f.advanceInFile(ctx, t, wait)
	}
	if wait < 0 {
		wait = advanceWait
	}
	if f.engine == sqlgen.MySQL {
		return f.advanceByProcedure(ctx, t, wait)
	}
	return f.advanceByFunction(ctx, t, wait)
}

// raise runs the statement, whose one row is the mark after it, and judges that.
func (f *Fence) raise(ctx context.Context, q Querier, t Token, text string, more ...any) error {
	rows, err := q.QueryContext(ctx, text, append(f.parameters([]Token{t}), more...)...)
	if err != nil {
		return f.explain(err, []Token{t})
	}
	defer rows.Close()
	var highWater, grant int64
	for rows.Next() {
		if err := rows.Scan(&highWater, &grant); err != nil {
			return f.explain(err, []Token{t})
		}
	}
	if err := rows.Err(); err != nil {
		return f.explain(err, []Token{t})
	}
	return Judge(t, highWater, grant)
}

// raiseInPool is raise on a connection of the pool. One that turns out to be dead
// before anything was sent is replaced, as database/sql does.
func (f *Fence) raiseInPool(ctx context.Context, p pool, t Token, text string, more ...any) (sent bool, err error) {
	for try := 1; ; try++ {
		conn, err := p.Conn(ctx)
		if err != nil {
			return false, err
		}
		err = f.raise(ctx, conn, t, text, more...)
		conn.Close() // back to the pool
		if !errors.Is(err, driver.ErrBadConn) || try == 3 {
			return true, err
		}
	}
}

const (
	postgresSeconds = `pg_catalog.make_interval(secs => $4::pg_catalog.int8::pg_catalog.float8 OPERATOR(pg_catalog./) 1e6::pg_catalog.float8)`

	postgresAdvance = `SELECT a.high_water, a.mark_grant FROM sqlfence.advance(` +
		`$1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.int8, ` + postgresSeconds + `, $5::pg_catalog.int8) AS a`

	postgresAbandon = `SELECT a.outcome FROM sqlfence.abandon($1::pg_catalog.text, $2::pg_catalog.int8) AS a`

	postgresBlockers = `SELECT b.pid, b.application_name, ` +
		`(pg_catalog.date_part('epoch', b.age) OPERATOR(pg_catalog.*) 1e6::pg_catalog.float8)::pg_catalog.int8, b.prepared ` +
		`FROM sqlfence.blockers($1::pg_catalog.text) AS b`

	// postgresMaxWait is the largest lock_timeout: 31 bits of milliseconds.
	postgresMaxWait = (1<<31 - 1) * time.Millisecond
)

// advanceByFunction is Advance on PostgreSQL. A server that is still waiting when its
// client has left would raise the mark later: the request has a number by which
// another connection takes it back.
func (f *Fence) advanceByFunction(ctx context.Context, t Token, wait time.Duration) error {
	p, pooled := f.q.(pool)
	var request sql.NullInt64
	if pooled {
		request = sql.NullInt64{Int64: 1 + rand.Int64N(1<<63-1), Valid: true}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b := bound.New(ctx, min(wait, postgresMaxWait))
	var err error
	sent := false
	if pooled {
		sent, err = f.raiseInPool(ctx, p, t, postgresAdvance, b.Microseconds(), request)
	} else {
		err = f.raise(ctx, f.q, t, postgresAdvance, b.Microseconds(), request)
	}
	switch {
	case err == nil || isJudged(err):
		return err
	case SQLState(err) == "57014" && strings.Contains(err.Error(), "sqlfence: wait bound spent"):
		blocked := &BlockedError{Resource: t.Resource, Wait: b.Total, Err: err}
		if pooled {
			blocked.Blockers, _ = f.blockers(ctx, postgresBlockers, t.Resource)
		}
		return blocked
	case withdrawal.Answered(SQLState(err)) || errors.Is(err, ErrSetup) || !sent:
		return err // a server has answered, or there is nothing to withdraw
	}
	return withdrawal.Run(ctx, err, stillMoving(t), func(ctx context.Context) error {
		return p.QueryRowContext(ctx, postgresAbandon, t.Resource, request).Scan(new(string))
	}, func(err error) bool { return withdrawal.Answered(SQLState(err)) })
}

// stillMoving is what an Advance leaves open that was not withdrawn.
func stillMoving(t Token) string {
	return fmt.Sprintf("the mark of %q may still be raised", t.Resource)
}

// blockers asks who holds the fence: id, name, age in microseconds, prepared.
func (f *Fence) blockers(ctx context.Context, text string, arg any) (blockers []Blocker, err error) {
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawal.After)
	defer cancel()
	rows, err := f.q.QueryContext(after, text, arg)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var pid, age sql.NullInt64
		var application, prepared sql.NullString
		if err := rows.Scan(&pid, &application, &age, &prepared); err != nil {
			return blockers, err
		}
		blockers = append(blockers, Blocker{
			PID: pid.Int64, Application: application.String,
			Age: time.Duration(age.Int64) * time.Microsecond, Prepared: prepared.String,
		})
	}
	// Of a procedure, Close reads the status, which comes behind its rows.
	return blockers, errors.Join(rows.Err(), rows.Close())
}

// isJudged reports whether err is what [Judge] made of a mark: an answer.
func isJudged(err error) bool {
	return errors.Is(err, ErrFenced) || errors.Is(err, ErrUnregistered)
}
