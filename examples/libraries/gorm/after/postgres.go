// Package store opens the shop's database.
package store

import (
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	_ "github.com/sqlfence/sqlfence/driver/postgres" // registers "sqlfence-pgx"
)

// OpenPostgreSQL connects to the database at a URL.
func OpenPostgreSQL(dsn string) (*gorm.DB, error) {
	return gorm.Open(postgres.New(postgres.Config{DriverName: "sqlfence-pgx", DSN: dsn}), &gorm.Config{TranslateError: true})
}
