package store

import (
	"github.com/jmoiron/sqlx"

	_ "github.com/sqlfence/sqlfence/driver/sqlite" // registers "sqlfence-sqlite"
)

// OpenSQLite opens a file.
func OpenSQLite(dsn string) (*sqlx.DB, error) {
	return sqlx.Open("sqlfence-sqlite", dsn)
}
