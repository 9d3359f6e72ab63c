package store

import (
	"database/sql"

	"xorm.io/xorm"
	"xorm.io/xorm/core"

	_ "github.com/sqlfence/sqlfence/driver/sqlite" // registers "sqlfence-sqlite"
)

// OpenSQLite opens a file.
func OpenSQLite(dsn string) (*xorm.Engine, error) {
	pool, err := sql.Open("sqlfence-sqlite", dsn)
	if err != nil {
		return nil, err
	}
	return xorm.NewEngineWithDB("sqlite3", dsn, core.FromDB(pool))
}
