package store

import (
	"database/sql"

	"xorm.io/xorm"
	"xorm.io/xorm/core"

	_ "github.com/sqlfence/sqlfence/driver/mysql" // registers "sqlfence-mysql"
)

// OpenMariaDB connects to a database of MariaDB or MySQL.
func OpenMariaDB(dsn string) (*xorm.Engine, error) {
	pool, err := sql.Open("sqlfence-mysql", dsn)
	if err != nil {
		return nil, err
	}
	return xorm.NewEngineWithDB("mysql", dsn, core.FromDB(pool))
}
