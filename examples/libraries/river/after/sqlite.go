package store

import (
	"database/sql"

	_ "github.com/sqlfence/sqlfence/driver/sqlite" // registers "sqlfence-sqlite"
)

// OpenSQLite opens a file.
func OpenSQLite(dsn string) (*sql.DB, error) {
	return sql.Open("sqlfence-sqlite", dsn)
}
