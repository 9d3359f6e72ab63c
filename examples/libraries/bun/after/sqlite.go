package store

import (
	"database/sql"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	_ "github.com/sqlfence/sqlfence/driver/sqlite" // registers "sqlfence-sqlite"
)

// OpenSQLite opens a file.
func OpenSQLite(dsn string) (*bun.DB, error) {
	pool, err := sql.Open("sqlfence-sqlite", dsn)
	if err != nil {
		return nil, err
	}
	return bun.NewDB(pool, sqlitedialect.New()), nil
}
