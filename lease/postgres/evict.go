package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/answer"
)

var _ lease.Evicter = (*Store)(nil)

// Evict implements [lease.Evicter]. The role that owns the schema sqlfence has to
// be the sessions' own, or a member of pg_signal_backend and pg_read_all_stats;
// sessions that it may not end are passed over.
func (s *Store) Evict(ctx context.Context, resource, owner string, grace time.Duration) ([]lease.Blocker, error) {
	if grace < 0 {
		return nil, fmt.Errorf("%w: negative grace %v", lease.ErrInvalidInput, grace)
	}
	var ended []lease.Blocker
	err := s.retry(ctx, func() error {
		ended = nil
		return query(ctx, s.q, evictSQL, func(rows *sql.Rows) error {
			var b lease.Blocker
			var application sql.NullString
			var age sql.NullInt64
			err := rows.Scan(&b.PID, &application, &age)
			b.Application, b.Age = application.String, answer.Microseconds(age.Int64)
			ended = append(ended, b)
			return err
		}, resource, owner, grace.Microseconds())
	})
	if err != nil {
		return nil, fmt.Errorf("sqlfence: evicting from %q: %w", resource, explain(err))
	}
	return ended, nil
}
