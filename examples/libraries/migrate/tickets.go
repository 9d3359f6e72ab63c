// Package tickets is the box office of a theatre, whose tables are kept with
// golang-migrate.
package tickets

import (
	"context"
	"database/sql"
	"embed"
	"errors"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed migrations
var files embed.FS

// Kind is what differs between databases.
type Kind struct {
	name   string // of the folder of migrations
	target func(*sql.DB) (database.Driver, error)
	sell   string // a statement with a place for the seat
}

// The kinds of database. For MariaDB and MySQL the DSN needs multiStatements=true, as
// golang-migrate demands.
var (
	PostgreSQL = Kind{
		"postgres",
		func(db *sql.DB) (database.Driver, error) { return pgx.WithInstance(db, &pgx.Config{}) },
		`UPDATE tickets SET state = 'sold' WHERE seat = $1 AND state = 'free'`,
	}
	SQLite = Kind{
		"sqlite",
		func(db *sql.DB) (database.Driver, error) { return sqlite.WithInstance(db, &sqlite.Config{}) },
		`UPDATE tickets SET state = 'sold' WHERE seat = ? AND state = 'free'`,
	}
	MariaDB = Kind{
		"mysql",
		func(db *sql.DB) (database.Driver, error) { return mysql.WithInstance(db, &mysql.Config{}) },
		`UPDATE tickets SET state = 'sold' WHERE seat = ? AND state = 'free'`,
	}
)

// Office sells tickets.
type Office struct {
	db   *sql.DB
	kind Kind
}

// New returns the office whose tables are in db.
func New(db *sql.DB, kind Kind) *Office { return &Office{db, kind} }

// Migrate brings the tables to the newest version. It closes db, as golang-migrate
// does with a pool that it is given.
func Migrate(db *sql.DB, kind Kind) error { return run(db, kind, (*migrate.Migrate).Up) }

// Back undoes the last migration, and closes db.
func Back(db *sql.DB, kind Kind) error {
	return run(db, kind, func(m *migrate.Migrate) error { return m.Steps(-1) })
}

func run(db *sql.DB, kind Kind, steps func(*migrate.Migrate) error) (err error) {
	source, err := iofs.New(files, "migrations/"+kind.name)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	target, err := kind.target(db)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, kind.name, target)
	if err != nil {
		return errors.Join(err, target.Close())
	}
	defer func() {
		ofSource, ofTarget := m.Close()
		err = errors.Join(err, ofSource, ofTarget)
	}()
	return steps(m)
}

// Sell sells a seat, and says whether it was free.
func (o *Office) Sell(ctx context.Context, seat string) (bool, error) {
	n, err := affected(o.db.ExecContext(ctx, o.kind.sell, seat))
	return n == 1, err
}

// Refund deletes what was sold.
func (o *Office) Refund(ctx context.Context) (int64, error) {
	return affected(o.db.ExecContext(ctx, `DELETE FROM tickets WHERE state = 'sold'`))
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
