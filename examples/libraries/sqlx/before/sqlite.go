package store

import (
	"github.com/jmoiron/sqlx"

	_ "modernc.org/sqlite"
)

// OpenSQLite opens a file.
func OpenSQLite(dsn string) (*sqlx.DB, error) {
	return sqlx.Open("sqlite", dsn)
}
