package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/answer"
)

// waiting is an operation of this store that waits on the server.
type waiting struct {
	resource string
	id       int64 // of the connection
}

// waits notes that an operation waits, until the function that it returns is called.
func (s *Store) waits(resource string, id int64) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = make(map[waiting]bool)
	}
	w := waiting{resource, id}
	s.waiting[w] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, w)
	}
}

func (s *Store) waitingFor(resource string) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []int64
	for w := range s.waiting {
		if w.resource == resource {
			ids = append(ids, w.id)
		}
	}
	return ids
}

// blockers returns the transactions that a waiting connection waits for. Where the
// account of the schema may not see them, the error tells the GRANT.
func (s *Store) blockers(ctx context.Context, db string, id int64) ([]lease.Blocker, error) {
	var blockers []lease.Blocker
	err := query(ctx, s.q, call(db, "blockers", number(id)), func(rows *sql.Rows) error {
		var pid, age sql.NullInt64
		var account, prepared sql.NullString
		if err := rows.Scan(&pid, &account, &age, &prepared); err != nil {
			return err
		}
		blockers = append(blockers, lease.Blocker{
			PID: pid.Int64, Application: account.String, Age: answer.Microseconds(age.Int64), Prepared: prepared.String,
		})
		return nil
	})
	if errors.Is(err, errNoRow) {
		err = nil
	}
	return blockers, explain(err)
}

// Evict implements [lease.Evicter] for the Acquires and Releases that wait in this
// Store. It kills the connections, for which they must be of the same account, or
// this one have CONNECTION ADMIN (MySQL: CONNECTION_ADMIN, and SYSTEM_USER for those
// who have it). To see them the account of the schema needs PROCESS, and on MySQL
// SELECT on performance_schema. Where a right is missing, the error matches
// guard.ErrSetup and tells the GRANT; the other connections are ended all the same.
func (s *Store) Evict(ctx context.Context, resource, owner string, grace time.Duration) ([]lease.Blocker, error) {
	if s.pool == nil {
		return nil, nil // there is no other connection, so nothing of ours waits
	}
	db, err := s.qualifier(ctx)
	if err != nil {
		return nil, explain(err)
	}
	var ended []lease.Blocker
	var denied error
	for _, id := range s.waitingFor(resource) {
		state, err := s.Inspect(ctx, resource)
		if err != nil {
			return ended, err
		}
		if state.Status == lease.Held && state.Owner != owner {
			break
		}
		blockers, err := s.blockers(ctx, db, id)
		if err != nil {
			return ended, err
		}
		for _, b := range blockers {
			if b.PID == 0 || b.Age < grace {
				continue
			}
			switch err := s.end(ctx, db, b); {
			case err == nil:
				ended = append(ended, b)
			case isNumber(err, unknownThread):
			case errors.Is(err, guard.ErrSetup):
				denied = err
			default:
				return ended, err
			}
		}
	}
	return ended, denied
}

// end kills a connection. What runs within a procedure of the schema is the account's
// of the schema, so that is ended first.
func (s *Store) end(ctx context.Context, db string, b lease.Blocker) error {
	if err := s.kill(ctx, db, b.PID); err != nil {
		return err
	}
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.ExecContext(ctx, "KILL "+strconv.FormatInt(b.PID, 10))
	right := ""
	switch {
	case isNumber(err, killDenied):
		right = "CONNECTION"
	case isNumber(err, specificAccessDenied):
		right = "SYSTEM_USER"
	default:
		return err
	}
	var account, version string
	asked := query(ctx, conn, "SELECT CURRENT_USER(), VERSION()", func(rows *sql.Rows) error { return rows.Scan(&account, &version) })
	if asked != nil {
		return errors.Join(err, asked)
	}
	if right == "CONNECTION" {
		right = "CONNECTION_ADMIN"
		if strings.Contains(version, "MariaDB") {
			right = "CONNECTION ADMIN"
		}
	}
	at := strings.LastIndexByte(account, '@')
	return &guard.SetupError{
		Problem: fmt.Sprintf("this account may not end %v", b),
		Remedy:  "GRANT " + right + " ON *.* TO " + quote(account[:at]) + "@" + quote(account[at+1:]) + ", or let all that write be one account",
		Err:     err,
	}
}
