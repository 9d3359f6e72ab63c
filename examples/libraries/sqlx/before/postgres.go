// Package store opens the report's database.
package store

import (
	"github.com/jmoiron/sqlx"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// OpenPostgreSQL connects to the database at a URL.
func OpenPostgreSQL(dsn string) (*sqlx.DB, error) {
	return sqlx.Open("pgx", dsn)
}
