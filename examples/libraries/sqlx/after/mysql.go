package store

import (
	"github.com/jmoiron/sqlx"

	_ "github.com/sqlfence/sqlfence/driver/mysql" // registers "sqlfence-mysql"
)

// OpenMariaDB connects to a database of MariaDB or MySQL.
func OpenMariaDB(dsn string) (*sqlx.DB, error) {
	return sqlx.Open("sqlfence-mysql", dsn)
}
