package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
)

// place is one server, or file, with leases in it.
type place struct {
	name     string // engine and version
	settings string // what of its configuration matters here
	ways     []way  // of acquiring and releasing; the first is the yardstick
	// polling returns a store that tells nobody of releases; notifying one that
	// does, and is nil where there is none. Each store has connections of its
	// own, closed with the place.
	polling, notifying func(ctx context.Context) (lease.Store, error)
	// counted returns a store all of whose requests are counted. One transaction may
	// be open on the database meanwhile, which bulk hands out as a store; bulk is nil
	// where there are none.
	counted func(ctx context.Context, c *count) (store lease.Store, bulk bulk, err error)
	wire    bool // there is one
	most    int  // handovers at once, where there is one writer; 0: any number
	cleanup []func() error
}

// bulk does something in one transaction.
type bulk func(ctx context.Context, fn func(lease.Store) error) error

// inOne is the bulk of a database.
func inOne(db *sql.DB, store func(*sql.Tx) lease.Store) bulk {
	return func(ctx context.Context, fn func(lease.Store) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := fn(store(tx)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
}

// later runs fn when the place is closed.
func (p *place) later(fn func() error) { p.cleanup = append(p.cleanup, fn) }

// close undoes what opening did, in reverse order.
func (p *place) close() error {
	var errs []error
	for _, fn := range slices.Backward(p.cleanup) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

// openPlaces opens everything that o asks for. The caller calls stop, also after an
// error.
func openPlaces(ctx context.Context, o options) (places []*place, stop func() error, err error) {
	var run *testserver.Run
	stop = func() error {
		var errs []error
		for _, p := range places {
			errs = append(errs, p.close())
		}
		if run != nil {
			errs = append(errs, run.Stop())
		}
		return errors.Join(errs...)
	}
	open := map[string]func(context.Context, *place, string) error{
		testserver.EnvPostgreSQL: openPostgreSQL,
		testserver.EnvMySQL:      openMySQL,
		testserver.EnvRedis:      openRedis,
	}
	add := func(open func(context.Context, *place, string) error, dsn string) error {
		p := &place{}
		places = append(places, p)
		return open(ctx, p, dsn)
	}
	for variable, engine := range map[string]string{
		testserver.EnvPostgreSQL: "postgres", testserver.EnvMySQL: "mysql", testserver.EnvRedis: "redis",
	} {
		if !slices.Contains(o.engines, engine) {
			delete(open, variable)
		}
	}
	if len(open) > 0 {
		if run, err = testserver.StartRun(ctx); err != nil {
			return places, stop, err
		}
		for _, variable := range run.Env() {
			name, list, _ := strings.Cut(variable, "=")
			if open[name] == nil {
				continue
			}
			for _, dsn := range strings.Split(list, ",") {
				if err := add(open[name], strings.TrimSpace(dsn)); err != nil {
					return places, stop, err
				}
			}
		}
	}
	if slices.Contains(o.engines, "sqlite") {
		if err := add(openSQLite, ""); err != nil {
			return places, stop, err
		}
	}
	return places, stop, nil
}

// unique is a name that no other run uses.
func unique() string { return "sqlfence_bench_" + strings.ToLower(rand.Text()[:10]) }

// ownFolder makes a folder that goes with the place.
func (p *place) ownFolder() (string, error) {
	dir, err := os.MkdirTemp("", "sqlfence-bench-")
	if err == nil {
		p.later(func() error { return os.RemoveAll(dir) })
	}
	return dir, err
}
