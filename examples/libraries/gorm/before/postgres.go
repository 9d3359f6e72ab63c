// Package store opens the shop's database.
package store

import (
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

// OpenPostgreSQL connects to the database at a URL.
func OpenPostgreSQL(dsn string) (*gorm.DB, error) {
	return gorm.Open(postgres.New(postgres.Config{DSN: dsn}), &gorm.Config{TranslateError: true})
}
