// Package store opens the office's database.
package store

import (
	"database/sql"

	_ "github.com/sqlfence/sqlfence/driver/postgres" // registers "sqlfence-pgx"
)

// OpenPostgreSQL connects to the database at a URL.
func OpenPostgreSQL(dsn string) (*sql.DB, error) {
	return sql.Open("sqlfence-pgx", dsn)
}
