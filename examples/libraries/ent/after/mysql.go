package store

import (
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/sqlfence/sqlfence/examples/libraries/ent/gen"

	_ "github.com/sqlfence/sqlfence/driver/mysql" // registers "sqlfence-mysql"
)

// OpenMariaDB connects to a database of MariaDB or MySQL.
func OpenMariaDB(dsn string) (*gen.Client, error) {
	pool, err := sql.Open("sqlfence-mysql", dsn)
	if err != nil {
		return nil, err
	}
	return gen.NewClient(gen.Driver(entsql.OpenDB(dialect.MySQL, pool))), nil
}
