// Package tasks is a list of tasks whose tables are kept with goose.
package tasks

import (
	"context"
	"database/sql"
	"embed"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var files embed.FS

// List is the list.
type List struct {
	db         *sql.DB
	migrations *goose.Provider
}

// NewPostgreSQL returns the list whose tables are in db, a database of PostgreSQL.
func NewPostgreSQL(db *sql.DB) (*List, error) {
	return newList(db, goose.DialectPostgres, "migrations/postgres")
}

// NewSQLite returns the list whose tables are in db, a file of SQLite.
func NewSQLite(db *sql.DB) (*List, error) {
	return newList(db, goose.DialectSQLite3, "migrations/sqlite")
}

// NewMariaDB returns the list whose tables are in db, a database of MariaDB or MySQL.
func NewMariaDB(db *sql.DB) (*List, error) {
	return newList(db, goose.DialectMySQL, "migrations/mysql")
}

func newList(db *sql.DB, dialect goose.Dialect, folder string) (*List, error) {
	sub, err := fs.Sub(files, folder)
	if err != nil {
		return nil, err
	}
	p, err := goose.NewProvider(dialect, db, sub)
	return &List{db, p}, err
}

// Close closes the pool.
func (l *List) Close() error { return l.db.Close() }

// UpTo migrates up to a version, and says how many migrations that took.
func (l *List) UpTo(ctx context.Context, version int64) (int, error) {
	done, err := l.migrations.UpTo(ctx, version)
	return len(done), err
}

// DownTo migrates down to a version.
func (l *List) DownTo(ctx context.Context, version int64) (int, error) {
	done, err := l.migrations.DownTo(ctx, version)
	return len(done), err
}

// Finish closes all tasks.
func (l *List) Finish(ctx context.Context) (int64, error) {
	res, err := l.db.ExecContext(ctx, `UPDATE tasks SET state = 'done'`)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
