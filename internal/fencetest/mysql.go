package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// MySQL is a database of MariaDB or MySQL that has the schema.
type MySQL struct {
	t   testing.TB
	DSN string
	DB  *sql.DB // for what watches the sessions
}

// OpenMySQL creates the schema in the database that dsn names.
func OpenMySQL(t testing.TB, dsn string) *MySQL {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := guard.Migrate(t.Context(), db, sqlgen.MySQL); err != nil {
		t.Fatal(err)
	}
	return &MySQL{t, dsn, db}
}

// MySQLSession is one connection to the database. It ends with the test.
type MySQLSession struct {
	t    testing.TB
	db   *MySQL
	conn *sql.Conn
	ID   int64 // of the connection

	started chan mysqlOutcome // of the statement in flight
}

type mysqlOutcome struct {
	affected int64
	err      error
}

// Session opens a connection and runs the statements of set-up on it.
func (d *MySQL) Session(setup ...string) *MySQLSession {
	d.t.Helper()
	db, err := sql.Open("mysql", d.DSN) // a pool of its own, so that nobody else gets the connection
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { db.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		d.t.Fatalf("connecting: %v", err)
	}
	d.t.Cleanup(func() { conn.Close() })
	s := &MySQLSession{t: d.t, db: d, conn: conn}
	s.Get("SELECT CONNECTION_ID()", nil, &s.ID)
	for _, text := range setup {
		s.Must(text)
	}
	return s
}

// Exec runs a statement and returns the number of rows that it affected.
func (s *MySQLSession) Exec(text string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	result, err := s.conn.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Must runs a statement that must succeed.
func (s *MySQLSession) Must(text string, args ...any) {
	s.t.Helper()
	if _, err := s.Exec(text, args...); err != nil {
		s.t.Fatalf("session %d: %.200s: %v", s.ID, text, err)
	}
}

// Get scans the one row of a query that must succeed.
func (s *MySQLSession) Get(text string, args []any, into ...any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if err := s.conn.QueryRowContext(ctx, text, args...).Scan(into...); err != nil {
		s.t.Fatalf("session %d: %.200s: %v", s.ID, text, err)
	}
}

// Start begins a statement in the background. [MySQLSession.Wait] must follow.
func (s *MySQLSession) Start(text string, args ...any) {
	done := make(chan mysqlOutcome, 1)
	s.started = done
	go func() {
		affected, err := s.Exec(text, args...)
		done <- mysqlOutcome{affected, err}
	}()
}

// Wait returns what the statement that Start began has come to, once it has ended.
func (s *MySQLSession) Wait() (int64, error) {
	s.t.Helper()
	done := s.started
	s.started = nil
	o := <-done
	return o.affected, o.err
}

// MustBlock waits until the statement that Start began waits for a lock.
func (s *MySQLSession) MustBlock() {
	s.t.Helper()
	for deadline := time.Now().Add(stepTimeout); time.Now().Before(deadline); {
		select {
		case o := <-s.started:
			s.t.Fatalf("session %d did not wait for a lock; it ended with: %d rows, %v", s.ID, o.affected, o.err)
		default:
		}
		if slices.Contains(s.db.waiting(""), s.ID) {
			return
		}
	}
	s.t.Fatalf("session %d neither waits for a lock nor ends", s.ID)
}

// blocks tells, once one of the two is so, whether the statement that Start began
// waits for a lock or has ended.
func (s *MySQLSession) blocks() bool {
	s.t.Helper()
	for deadline := time.Now().Add(stepTimeout); time.Now().Before(deadline); {
		if len(s.started) > 0 {
			return false
		}
		if slices.Contains(s.db.waiting(""), s.ID) {
			return true
		}
	}
	s.t.Fatalf("session %d neither waits for a lock nor ends", s.ID)
	return false
}

// Conn is the session's connection.
func (s *MySQLSession) Conn() *sql.Conn { return s.conn }

// UntilWaiting waits until n sessions of the database, whose statement contains
// text, wait for a lock. (Within a procedure that is the procedure's statement.)
func (d *MySQL) UntilWaiting(n int, text string) {
	d.t.Helper()
	for deadline := time.Now().Add(stepTimeout); time.Now().Before(deadline); {
		if len(d.waiting(text)) == n {
			return
		}
	}
	d.t.Fatalf("no %d sessions wait in %q", n, text)
}

// thread is where InnoDB's status tells the connection of a transaction.
var thread = regexp.MustCompile(`MariaDB thread id (\d+)`)

// waiting returns the connections to the database that wait for a lock in a statement
// that contains text. On MariaDB it is InnoDB's status that is asked: the tables of
// information_schema are not renewed while somebody looks at them all the time. That
// of MySQL tells nothing of a transaction that has only read.
func (d *MySQL) waiting(text string) (ids []int64) {
	d.t.Helper()
	if d.mariaDB() {
		return d.waitingByStatus(text)
	}
	rows, err := d.DB.QueryContext(context.Background(), `SELECT DISTINCT t.processlist_id
		FROM performance_schema.data_lock_waits AS w JOIN performance_schema.threads AS t ON t.thread_id = w.requesting_thread_id
		WHERE t.processlist_db = DATABASE() AND LOCATE(?, t.processlist_info) > 0`, text)
	if err != nil {
		d.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			d.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		d.t.Fatal(err)
	}
	return ids
}

// mariaDB tells which of the two servers this is.
func (d *MySQL) mariaDB() bool {
	d.t.Helper()
	var version string
	if err := d.DB.QueryRowContext(context.Background(), "SELECT VERSION()").Scan(&version); err != nil {
		d.t.Fatal(err)
	}
	return strings.Contains(version, "MariaDB")
}

func (d *MySQL) waitingByStatus(text string) (ids []int64) {
	d.t.Helper()
	ctx := context.Background()
	var kind, name, status string
	if err := d.DB.QueryRowContext(ctx, "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
		d.t.Fatal(err)
	}
	for _, transaction := range strings.Split(status, "---TRANSACTION ")[1:] {
		found := thread.FindStringSubmatch(transaction)
		if found == nil || !strings.Contains(transaction, "LOCK WAIT") || !strings.Contains(transaction, text) {
			continue
		}
		var here bool
		err := d.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id = "+found[1]).Scan(&here)
		if err != nil {
			d.t.Fatal(err)
		}
		id, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			d.t.Fatal(err)
		}
		if here {
			ids = append(ids, id)
		}
	}
	return ids
}

// Lapse makes the lease of a resource lapse now.
func (d *MySQL) Lapse(resource string) {
	d.t.Helper()
	_, err := d.DB.ExecContext(context.Background(),
		"UPDATE sqlfence_leases SET expires_at = TIMESTAMPADD(SECOND, -1, UTC_TIMESTAMP(6)) WHERE resource = ?", resource)
	if err != nil {
		d.t.Fatal(err)
	}
}

// MySQLAcquire acquires the resource of the first argument for the owner of the
// second, for ten minutes, and waits for a minute.
const MySQLAcquire = "CALL sqlfence_acquire(?, ?, 600000000, 60, 0, FLOOR(1 + RAND() * 1000000000000), 0, FALSE)"

// Acquire acquires a resource and returns the token.
func (s *MySQLSession) Acquire(resource, owner string) guard.Token {
	s.t.Helper()
	t := guard.Token{Resource: resource}
	var outcome string
	var expires, holder, remaining any
	s.Get(MySQLAcquire, []any{resource, owner}, &outcome, &t.Epoch, &t.Grant, &expires, &holder, &remaining)
	return t
}

// Number returns the number of the server's error, 0 for nil and -1 for another kind.
func Number(err error) int {
	var e *mysql.MySQLError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return int(e.Number)
	}
	return -1
}
