package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

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

// blockers returns the transactions that a waiting connection waits for, as far as
// the account of the schema may see them: it needs PROCESS.
func (s *Store) blockers(ctx context.Context, db string, id int64) ([]lease.Blocker, error) {
	var blockers []lease.Blocker
	err := query(ctx, s.q, call(db, "blockers", number(id)), func(rows *sql.Rows) error {
		var pid, age sql.NullInt64
		var account, trx sql.NullString
		if err := rows.Scan(&pid, &account, &age, &trx); err != nil {
			return err
		}
		b := lease.Blocker{PID: pid.Int64, Application: account.String, Age: answer.Microseconds(age.Int64)}
		if pid.Int64 == 0 {
			b.Prepared = "XA transaction " + trx.String
		}
		blockers = append(blockers, b)
		return nil
	})
	if errors.Is(err, errNoRow) {
		err = nil
	}
	return blockers, err
}

// Evict implements [lease.Evicter] for the Acquires and Releases that wait in this
// Store. It kills the connections, for which they must be of the same account, or
// this one have CONNECTION ADMIN (MySQL: CONNECTION_ADMIN); it sees them if the
// account of the schema has PROCESS.
func (s *Store) Evict(ctx context.Context, resource, owner string, grace time.Duration) ([]lease.Blocker, error) {
	if s.pool == nil {
		return nil, nil // there is no other connection, so nothing of ours waits
	}
	db, err := s.qualifier(ctx)
	if err != nil {
		return nil, explain(err)
	}
	var ended []lease.Blocker
	for _, id := range s.waitingFor(resource) {
		state, err := s.Inspect(ctx, resource)
		if err != nil {
			return ended, err
		}
		if state.Status == lease.Held && state.Owner != owner {
			return ended, nil
		}
		blockers, err := s.blockers(ctx, db, id)
		if err != nil {
			return ended, explain(err)
		}
		for _, b := range blockers {
			if b.PID == 0 || b.Age < grace {
				continue
			}
			conn, err := s.pool.Conn(ctx)
			if err != nil {
				return ended, err
			}
			_, err = conn.ExecContext(ctx, "KILL "+strconv.FormatInt(b.PID, 10))
			conn.Close()
			if isNumber(err, unknownThread) {
				continue
			}
			if err != nil {
				return ended, err
			}
			ended = append(ended, b)
		}
	}
	return ended, nil
}
