// Package mysql registers, on import, the driver "sqlfence-mysql" with
// database/sql: github.com/go-sql-driver/mysql behind the fence, for MariaDB and
// MySQL.
//
//	import _ "github.com/sqlfence/sqlfence/driver/mysql"
//
//	db, err := sql.Open("sqlfence-mysql", "user:password@tcp(host:3306)/app")
//
// The fence is in the database that the data source name names, beside the data.
//
// The client's character set must be one in which every byte below 0x80 is a
// character of its own, such as utf8mb4, which is the default: with another one in
// the data source name (gbk, big5, sjis), opening fails with a *[guard.SetupError],
// and where it is set otherwise, every guarded write does.
package mysql

import (
	"database/sql/driver"
	"slices"

	"github.com/go-sql-driver/mysql"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// DriverName is the name of the driver that importing this package registers.
const DriverName = "sqlfence-mysql"

func init() { Register(DriverName) }

// Register registers go-sql-driver/mysql behind the fence under a name of the
// caller's, with options. It panics if the name is taken.
func Register(name string, opts ...fence.Option) {
	fence.Register(name, &mysql.MySQLDriver{}, sqlgen.MySQL, slices.Concat([]fence.Option{fence.FenceDatabase(database)}, opts)...)
}

// WrapConnector puts the fence before the connections of a connector of
// go-sql-driver/mysql, such as [mysql.NewConnector] returns, for
// [database/sql.OpenDB]. It panics if the connector is nil.
func WrapConnector(c driver.Connector, opts ...fence.Option) driver.Connector {
	return fence.WrapConnector(c, sqlgen.MySQL, opts...)
}

func database(dsn string) (string, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	return c.DBName, checkCharset(c)
}
