package store

import (
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/sqlfence/sqlfence/examples/libraries/ent/gen"

	_ "github.com/sqlfence/sqlfence/driver/sqlite" // registers "sqlfence-sqlite"
)

// OpenSQLite opens a file.
func OpenSQLite(dsn string) (*gen.Client, error) {
	pool, err := sql.Open("sqlfence-sqlite", dsn)
	if err != nil {
		return nil, err
	}
	return gen.NewClient(gen.Driver(entsql.OpenDB(dialect.SQLite, pool))), nil
}
