// Package jobs is a recipe: a table of jobs, and any number of workers, in one process
// or many, that share them out by leases.
package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sqlfence/sqlfence/lease"
)

// Queue is a table of jobs.
type Queue struct {
	DB     *sql.DB // of a sqlfence driver
	Leases *lease.Manager
	// Work does a job, writing with the context that it is given. It may run again for
	// a job that it has not finished.
	Work func(ctx context.Context, id int64) error
}

// Pass does the open jobs that nobody else is at, and returns how many it did. Call it
// again after a pause.
func (q *Queue) Pass(ctx context.Context) (done int, err error) {
	open, err := q.open(ctx)
	if err != nil {
		return 0, err
	}
	for _, id := range open {
		did, err := q.one(ctx, id)
		if did {
			done++
		}
		switch {
		case errors.Is(err, lease.ErrNotAcquirable), errors.Is(err, lease.ErrBlocked):
			// Somebody else is at it: on to the next.
		case errors.Is(err, lease.ErrLost) && ctx.Err() == nil:
			// Somebody else has taken it over, and does it.
		case err != nil:
			return done, err
		}
	}
	return done, nil
}

func (q *Queue) one(ctx context.Context, id int64) (did bool, err error) {
	err = q.Leases.Hold(ctx, fmt.Sprintf("job-%d", id), func(ctx context.Context) error {
		// The list is old: whoever held the lease since may have done the job.
		var status string
		if err := q.DB.QueryRowContext(ctx, `SELECT status FROM jobs WHERE id = $1`, id).Scan(&status); err != nil || status != "open" {
			return err
		}
		if err := q.Work(ctx, id); err != nil {
			return err
		}
		_, err := q.DB.ExecContext(ctx, `UPDATE jobs SET status = 'done' WHERE id = $1`, id)
		did = err == nil
		return err
	},
		lease.Wait(0),                        // do not wait for a job that somebody else is at
		lease.OnReentry(lease.ReentryRefuse)) // not even if that is a goroutine with the same manager
	return did, err
}

func (q *Queue) open(ctx context.Context) (ids []int64, err error) {
	rows, err := q.DB.QueryContext(ctx, `SELECT id FROM jobs WHERE status = 'open' ORDER BY id LIMIT 100`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
