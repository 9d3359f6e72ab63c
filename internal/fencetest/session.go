// Package fencetest interleaves sessions on a real PostgreSQL, step by step: a
// statement is started, the server says that it waits for a lock, and only then
// does the next session move. No step depends on how fast a machine is.
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// stepTimeout is how long a step may take before the test fails.
const stepTimeout = 30 * time.Second

// DB is a database that has the schema.
type DB struct {
	t   testing.TB
	DSN string

	mu    sync.Mutex
	watch *Session
}

// Open creates the schema in the empty database that dsn names.
func Open(t testing.TB, dsn string) *DB {
	t.Helper()
	d := Attach(t, dsn)
	d.watch.Must(sqlgen.Schema(sqlgen.PostgreSQL))
	return d
}

// Attach opens a database as it is.
func Attach(t testing.TB, dsn string) *DB {
	t.Helper()
	d := &DB{t: t, DSN: dsn}
	d.watch = d.Session()
	return d
}

// Session is one connection to the database. It ends with the test.
type Session struct {
	t    testing.TB
	db   *DB
	conn *pgx.Conn
	PID  uint32 // of the server's process

	started chan error // of the statement in flight
}

// Session opens a connection and runs the statements of set-up on it.
func (d *DB) Session(setup ...string) *Session {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.DSN)
	if err != nil {
		d.t.Fatalf("connecting: %v", err)
	}
	s := &Session{t: d.t, db: d, conn: conn, PID: conn.PgConn().PID()}
	d.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		conn.Close(ctx)
	})
	for _, text := range setup {
		s.Must(text)
	}
	return s
}

// Exec runs a statement and returns its error. Without arguments the text may
// hold several statements.
func (s *Session) Exec(text string, args ...any) error {
	_, err := s.Affected(text, args...)
	return err
}

// Affected runs a statement and returns the number of rows that it affected.
func (s *Session) Affected(text string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if len(args) == 0 {
		// The simple protocol, which takes several statements.
		args = []any{pgx.QueryExecModeSimpleProtocol}
	}
	tag, err := s.conn.Exec(ctx, text, args...)
	return tag.RowsAffected(), err
}

// Must runs a statement that must succeed.
func (s *Session) Must(text string, args ...any) {
	s.t.Helper()
	if err := s.Exec(text, args...); err != nil {
		s.t.Fatalf("session %d: %.200s: %v", s.PID, text, err)
	}
}

// Get scans the one row of a query that must succeed.
func (s *Session) Get(text string, args []any, into ...any) {
	s.t.Helper()
	if err := s.Query(text, args, into...); err != nil {
		s.t.Fatalf("session %d: %.200s: %v", s.PID, text, err)
	}
}

// Query scans the one row of a query.
func (s *Session) Query(text string, args []any, into ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return s.conn.QueryRow(ctx, text, args...).Scan(into...)
}

// Start begins a statement in the background. [Session.Wait] must follow.
func (s *Session) Start(text string, args ...any) {
	done := make(chan error, 1)
	s.started = done
	go func() { done <- s.Exec(text, args...) }()
}

// Wait returns the error of the statement that Start began, once it has ended.
func (s *Session) Wait() error {
	s.t.Helper()
	done := s.started
	s.started = nil
	return <-done
}

// Blocked waits until the statement that Start began waits for a lock, and
// reports true; false if it ended instead.
func (s *Session) Blocked() bool {
	s.t.Helper()
	deadline := time.Now().Add(stepTimeout)
	for time.Now().Before(deadline) {
		select {
		case err := <-s.started:
			s.started <- err
			return false
		default:
		}
		if s.db.waiting(s.PID) {
			return true
		}
	}
	s.t.Fatalf("session %d neither waits for a lock nor ends", s.PID)
	return false
}

// MustBlock is Blocked for a statement that must not end.
func (s *Session) MustBlock() {
	s.t.Helper()
	if !s.Blocked() {
		s.t.Fatalf("session %d did not wait for a lock; it ended with: %v", s.PID, s.Wait())
	}
}

// waiting reports whether a session waits for a lock, as the lock manager sees it.
func (d *DB) waiting(pid uint32) bool {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var waits bool
	d.watch.Get(`SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)`, []any{int32(pid)}, &waits)
	return waits
}

// UntilWaiting waits until n other sessions of the database, whose statement
// contains text, wait for a lock.
func (d *DB) UntilWaiting(n int, text string) {
	d.t.Helper()
	deadline := time.Now().Add(stepTimeout)
	for time.Now().Before(deadline) {
		var waiting int
		d.Watch(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
			AND strpos(query, $1) > 0 AND pid <> pg_backend_pid()`, []any{text}, &waiting)
		if waiting == n {
			return
		}
	}
	d.t.Fatalf("no %d sessions wait in %q", n, text)
}

// Watch runs a query on the session that watches the others.
func (d *DB) Watch(text string, args []any, into ...any) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watch.Get(text, args, into...)
}

// Lapse makes the lease of a resource lapse now.
func (d *DB) Lapse(resource string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watch.Must(`UPDATE sqlfence.leases SET expires_at = clock_timestamp() - interval '1 s' WHERE resource = $1`, resource)
}

// AcquireSQL acquires resource $1 for owner $2 for ten minutes, or fails.
const AcquireSQL = `SELECT a.epoch, a.grant_id FROM sqlfence.acquire($1, $2, '10 min') AS a WHERE a.outcome = 'ok'`

// Acquire acquires a resource and returns the token.
func (s *Session) Acquire(resource, owner string) guard.Token {
	s.t.Helper()
	t := guard.Token{Resource: resource}
	s.Get(AcquireSQL, []any{resource, owner}, &t.Epoch, &t.Grant)
	return t
}

// State returns the SQLSTATE of an error, "" for nil; an error of another kind is
// its own text.
func State(err error) string {
	var pgErr *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &pgErr):
		return pgErr.Code
	}
	return fmt.Sprintf("no SQLSTATE: %v", err)
}
