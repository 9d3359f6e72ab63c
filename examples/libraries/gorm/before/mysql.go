package store

import (
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
)

// OpenMariaDB connects to a database of MariaDB or MySQL.
func OpenMariaDB(dsn string) (*gorm.DB, error) {
	return gorm.Open(mysql.New(mysql.Config{DSN: dsn}), &gorm.Config{TranslateError: true})
}
