package store

import (
	"database/sql"

	_ "modernc.org/sqlite"
)

// OpenSQLite opens a file.
func OpenSQLite(dsn string) (*sql.DB, error) {
	return sql.Open("sqlite", dsn)
}
