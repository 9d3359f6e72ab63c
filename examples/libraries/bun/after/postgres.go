// Package store opens the rebalancer's database.
package store

import (
	"database/sql"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	_ "github.com/sqlfence/sqlfence/driver/postgres" // registers "sqlfence-pgx"
)

// OpenPostgreSQL connects to the database at a URL.
func OpenPostgreSQL(dsn string) (*bun.DB, error) {
	pool, err := sql.Open("sqlfence-pgx", dsn)
	if err != nil {
		return nil, err
	}
	return bun.NewDB(pool, pgdialect.New()), nil
}
