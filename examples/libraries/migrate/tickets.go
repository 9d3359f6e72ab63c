// Package tickets is the box office of a theatre, whose tables are kept with
// golang-migrate.
package tickets

import (
	"context"
	"database/sql"
	"embed"
	"errors"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed migrations
var files embed.FS

// Office sells tickets.
type Office struct{ db *sql.DB }

// New returns the office whose tables are in db.
func New(db *sql.DB) *Office { return &Office{db} }

// Migrate brings the tables to the newest version. It closes db, as golang-migrate
// does with a pool that it is given.
func Migrate(db *sql.DB) error { return run(db, (*migrate.Migrate).Up) }

// Back undoes the last migration, and closes db.
func Back(db *sql.DB) error {
	return run(db, func(m *migrate.Migrate) error { return m.Steps(-1) })
}

func run(db *sql.DB, steps func(*migrate.Migrate) error) (err error) {
	source, err := iofs.New(files, "migrations")
	if err != nil {
		return errors.Join(err, db.Close())
	}
	target, err := pgx.WithInstance(db, &pgx.Config{})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", target)
	if err != nil {
		return errors.Join(err, target.Close())
	}
	defer func() {
		ofSource, ofTarget := m.Close()
		err = errors.Join(err, ofSource, ofTarget)
	}()
	return steps(m)
}

// Sell sells a seat.
func (o *Office) Sell(ctx context.Context, seat string) (id int64, err error) {
	err = o.db.QueryRowContext(ctx, `UPDATE tickets SET state = 'sold' WHERE seat = $1 AND state = 'free' RETURNING id`, seat).Scan(&id)
	return id, err
}

// Refund deletes what was sold.
func (o *Office) Refund(ctx context.Context) (int64, error) {
	res, err := o.db.ExecContext(ctx, `DELETE FROM tickets WHERE state = 'sold'`)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
