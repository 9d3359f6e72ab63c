// Package store opens the report's database.
package store

import (
	"github.com/jmoiron/sqlx"

	_ "github.com/sqlfence/sqlfence/driver/postgres" // registers "sqlfence-pgx"
)

func init() { sqlx.BindDriver("sqlfence-pgx", sqlx.DOLLAR) }

// OpenPostgreSQL connects to the database at a URL.
func OpenPostgreSQL(dsn string) (*sqlx.DB, error) {
	return sqlx.Open("sqlfence-pgx", dsn)
}
