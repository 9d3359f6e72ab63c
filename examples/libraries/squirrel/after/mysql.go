package store

import (
	"database/sql"

	_ "github.com/sqlfence/sqlfence/driver/mysql" // registers "sqlfence-mysql"
)

// OpenMariaDB connects to a database of MariaDB or MySQL.
func OpenMariaDB(dsn string) (*sql.DB, error) {
	return sql.Open("sqlfence-mysql", dsn)
}
