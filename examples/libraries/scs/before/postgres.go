// Package store opens the shop's database.
package store

import (
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// OpenPostgreSQL connects to the database at a URL.
func OpenPostgreSQL(dsn string) (*sql.DB, error) {
	return sql.Open("pgx", dsn)
}
