package store

import (
	"database/sql"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"

	_ "github.com/sqlfence/sqlfence/driver/mysql" // registers "sqlfence-mysql"
)

// OpenMariaDB connects to a database of MariaDB or MySQL.
func OpenMariaDB(dsn string) (*bun.DB, error) {
	pool, err := sql.Open("sqlfence-mysql", dsn)
	if err != nil {
		return nil, err
	}
	return bun.NewDB(pool, mysqldialect.New()), nil
}
