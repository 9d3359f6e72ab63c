//go:build unix

package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	_ "github.com/sqlfence/sqlfence/driver/postgres" // registers "sqlfence-pgx"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// childVariable is the environment variable that makes a process a worker: it
// holds a workerConfig as JSON. Not an argument, because the URL may hold a
// password.
const childVariable = "SQLFENCE_EXAMPLE_WORKER"

// workerConfig is what a worker process is told at its start.
type workerConfig struct {
	Name     string
	Driver   string // of database/sql
	DSN      string
	Table    string
	Resource string
	TTL      time.Duration
}

// The commands that a worker takes, one a line on its standard input.
const (
	cmdInsert = "INSERT" // row 3
	cmdUpdate = "UPDATE" // row 1
	cmdDelete = "DELETE" // row 2
)

// The other events that a worker reports.
const (
	evHolding = "holding"
	evLost    = "lost"
	evEnded   = "ended"
)

// report is what a worker says, one JSON object a line on its standard output.
type report struct {
	Event  string // one of the events, or the command that was executed
	Epoch  int64  `json:",omitempty"` // holding: the lease's
	Error  string `json:",omitempty"` // what the command returned, the cause of the loss, what Hold returned
	Fenced bool   `json:",omitempty"` // whether the error matches guard.ErrFenced
	Lost   bool   `json:",omitempty"` // whether the error matches lease.ErrLost
}

func reportOf(event string, err error) report {
	r := report{Event: event}
	if err != nil {
		r.Error = err.Error()
		r.Fenced = errors.Is(err, guard.ErrFenced)
		r.Lost = errors.Is(err, lease.ErrLost)
	}
	return r
}

// work is a worker's whole life: it holds the lease, and executes commands
// until its input ends.
func work(ctx context.Context, c workerConfig, in io.Reader, out io.Writer) error {
	db, err := sql.Open(c.Driver, c.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	leases, err := lease.NewManager(leasepg.New(db), lease.TTL(c.TTL), lease.Owner(c.Name))
	if err != nil {
		return err
	}
	defer leases.Close()

	var mu sync.Mutex
	enc := json.NewEncoder(out)
	say := func(r report) {
		mu.Lock()
		defer mu.Unlock()
		_ = enc.Encode(r) // a parent that is gone also closes the input, which ends the worker
	}

	err = leases.Hold(ctx, c.Resource, func(held context.Context) error {
		say(report{Event: evHolding, Epoch: guard.Tokens(held)[0].Epoch})
		stop := context.AfterFunc(held, func() { say(reportOf(evLost, context.Cause(held))) })
		defer stop()

		// The worst of workers: one that never looks whether its context has
		// ended. The token is still in this context, the loss of the lease is
		// not: only the database can stop these writes.
		careless := context.WithoutCancel(held)

		app := jobs{db: db, table: c.Table}
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			command := lines.Text()
			say(reportOf(command, execute(careless, app, c.Name, command)))
		}
		return lines.Err()
	})
	say(reportOf(evEnded, err))
	return nil
}

func execute(ctx context.Context, app jobs, name, command string) error {
	switch command {
	case cmdInsert:
		return app.add(ctx, 3, "added by "+name)
	case cmdUpdate:
		return app.finish(ctx, 1, "done by "+name)
	case cmdDelete:
		return app.cancel(ctx, 2)
	}
	return fmt.Errorf("unknown command %q", command)
}
