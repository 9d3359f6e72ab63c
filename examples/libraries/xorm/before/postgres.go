// Package store opens the print shop's database.
package store

import (
	"database/sql"

	"xorm.io/xorm"
	"xorm.io/xorm/core"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// OpenPostgreSQL connects to the database at a URL.
func OpenPostgreSQL(dsn string) (*xorm.Engine, error) {
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	return xorm.NewEngineWithDB("postgres", dsn, core.FromDB(pool))
}
