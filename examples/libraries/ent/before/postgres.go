// Package store opens the warehouse's database.
package store

import (
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/sqlfence/sqlfence/examples/libraries/ent/gen"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// OpenPostgreSQL connects to the database at a URL.
func OpenPostgreSQL(dsn string) (*gen.Client, error) {
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	return gen.NewClient(gen.Driver(entsql.OpenDB(dialect.Postgres, pool))), nil
}
