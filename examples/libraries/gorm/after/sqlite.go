package store

import (
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	_ "github.com/sqlfence/sqlfence/driver/sqlite" // registers "sqlfence-sqlite"
)

// OpenSQLite opens a file.
func OpenSQLite(dsn string) (*gorm.DB, error) {
	return gorm.Open(sqlite.New(sqlite.Config{DriverName: "sqlfence-sqlite", DSN: dsn}), &gorm.Config{TranslateError: true})
}
