package main

import (
	"context"
	"database/sql"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// openSQLite makes a file in a temporary folder.
func openSQLite(ctx context.Context, p *place, _ string) error {
	dir, err := p.ownFolder()
	if err != nil {
		return err
	}
	// A minute of patience: writers queue by chance, and one that gives up would
	// end the run.
	open := func(driver, file string) (*sql.DB, error) {
		db, err := sql.Open(driver, "file:"+filepath.Join(dir, file)+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(2 * mostClients)
		db.SetMaxIdleConns(2 * mostClients)
		p.later(db.Close)
		return db, guard.Migrate(ctx, db, sqlgen.SQLite)
	}
	db, err := open("sqlite", "leases.db")
	if err != nil {
		return err
	}
	var version string
	if err := db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
		return err
	}
	p.name = "SQLite " + version
	p.settings = "modernc.org/sqlite, all clients in one process; journal_mode=WAL, synchronous=NORMAL, which an acquire and a release raise to FULL for themselves; so has the yardstick"
	p.most = 50
	p.polling = func(context.Context) (lease.Store, error) {
		db, err := open("sqlite", "leases.db")
		return leasesqlite.New(db), err
	}
	p.counted = func(_ context.Context, c *count) (lease.Store, bulk, error) {
		// A file of its own: it has one writer at a time.
		db, err := open(c.register(&sqlite.Driver{}), unique()+".db")
		return leasesqlite.New(db), inOne(db, func(tx *sql.Tx) lease.Store { return leasesqlite.New(tx) }), err
	}
	yardstick, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "yardstick.db")+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return err
	}
	yardstick.SetMaxIdleConns(mostClients)
	p.later(yardstick.Close)
	p.ways = append(p.ways, twoUpdates(yardstick, `UPDATE yardstick SET n = n + ? WHERE id = ?`))
	if err := makeYardstick(ctx, yardstick); err != nil {
		return err
	}
	return p.addSqlfence(ctx)
}
