package store

import (
	"database/sql"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"
)

// OpenPgdriver connects to the database at a URL, through bun's own driver.
func OpenPgdriver(dsn string) (*bun.DB, error) {
	pool := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(dsn), pgdriver.WithInsecure(true)))
	return bun.NewDB(pool, pgdialect.New()), nil
}
