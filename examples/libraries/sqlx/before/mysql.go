package store

import (
	"github.com/jmoiron/sqlx"

	_ "github.com/go-sql-driver/mysql"
)

// OpenMariaDB connects to a database of MariaDB or MySQL.
func OpenMariaDB(dsn string) (*sqlx.DB, error) {
	return sqlx.Open("mysql", dsn)
}
