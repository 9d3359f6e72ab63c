// Package cron is a recipe: any number of replicas, and a nightly job that runs once.
//
// Each replica calls Run when its clock says so, and again every few minutes: the first
// does the job, the others find it at work or done. If the replica that works dies,
// the lease lapses and the next call of any other takes the job over; if it was only
// paused, what it writes after that is refused.
package cron

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sqlfence/sqlfence/lease"
)

// Schema is the table that remembers which nights are done.
const Schema = `CREATE TABLE IF NOT EXISTS nights (job varchar(100), night varchar(10), PRIMARY KEY (job, night))`

// Nightly is a job that runs once a night.
type Nightly struct {
	DB     *sql.DB // of a sqlfence driver
	Leases *lease.Manager
	Name   string // names the lease as well
	// Work does the night's work, writing with the context that it is given. It may
	// run again for a night that it has not finished.
	Work func(ctx context.Context, night string) error
}

// Run does the night's work unless it is done, or somebody else is at it: then it
// returns false, and no error. An error that matches lease.ErrLost says that
// somebody else has taken over.
func (n *Nightly) Run(ctx context.Context, night string) (worked bool, err error) {
	err = n.Leases.Hold(ctx, "cron/"+n.Name, func(ctx context.Context) error {
		// Under the lease: whoever held it before has finished or is fenced.
		var done int
		if err := n.DB.QueryRowContext(ctx, `SELECT COUNT(*) FROM nights WHERE job = $1 AND night = $2`, n.Name, night).Scan(&done); err != nil || done > 0 {
			return err
		}
		if err := n.Work(ctx, night); err != nil {
			return err
		}
		worked = true
		_, err := n.DB.ExecContext(ctx, `INSERT INTO nights (job, night) VALUES ($1, $2)`, n.Name, night)
		return err
	}, lease.Wait(0))
	if errors.Is(err, lease.ErrNotAcquirable) || errors.Is(err, lease.ErrBlocked) {
		return false, nil
	}
	return worked && err == nil, err
}
