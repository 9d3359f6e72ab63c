package store

import (
	"database/sql"

	"xorm.io/xorm"
	"xorm.io/xorm/core"

	_ "modernc.org/sqlite"
)

// OpenSQLite opens a file.
func OpenSQLite(dsn string) (*xorm.Engine, error) {
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	return xorm.NewEngineWithDB("sqlite3", dsn, core.FromDB(pool))
}
