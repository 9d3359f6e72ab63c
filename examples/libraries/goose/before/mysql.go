package store

import (
	"database/sql"

	_ "github.com/go-sql-driver/mysql"
)

// OpenMariaDB connects to a database of MariaDB or MySQL.
func OpenMariaDB(dsn string) (*sql.DB, error) {
	return sql.Open("mysql", dsn)
}
