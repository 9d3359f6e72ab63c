package store

import (
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	_ "github.com/sqlfence/sqlfence/driver/mysql" // registers "sqlfence-mysql"
)

// OpenMariaDB connects to a database of MariaDB or MySQL.
func OpenMariaDB(dsn string) (*gorm.DB, error) {
	return gorm.Open(mysql.New(mysql.Config{DriverName: "sqlfence-mysql", DSN: dsn}), &gorm.Config{TranslateError: true})
}
