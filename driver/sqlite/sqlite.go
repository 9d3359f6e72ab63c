// Package sqlite registers, on import, the driver "sqlfence-sqlite" with
// database/sql: modernc.org/sqlite, which needs no cgo, behind the fence.
//
//	import _ "github.com/sqlfence/sqlfence/driver/sqlite"
//
//	db, err := sql.Open("sqlfence-sqlite", "file:app.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
package sqlite

import (
	"database/sql/driver"

	"modernc.org/sqlite"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// DriverName is the name of the driver that importing this package registers.
const DriverName = "sqlfence-sqlite"

func init() { Register(DriverName) }

// Register registers modernc.org/sqlite behind the fence under a name of the
// caller's, with options. It panics if the name is taken.
func Register(name string, opts ...fence.Option) {
	fence.Register(name, parent(), sqlgen.SQLite, opts...)
}

// WrapConnector puts the fence before the connections of a connector of an
// SQLite driver, such as [sqlite.NewConnector] returns, for
// [database/sql.OpenDB]. It panics if the connector is nil.
func WrapConnector(c driver.Connector, opts ...fence.Option) driver.Connector {
	return fence.WrapConnector(c, sqlgen.SQLite, opts...)
}

// parent returns the driver that modernc.org/sqlite itself has registered, with
// the functions, collations and hooks that programs give to it.
func parent() driver.Driver {
	c, err := sqlite.NewConnector("")
	if err != nil {
		panic(err) // an empty name is not parsed
	}
	return c.Driver()
}
