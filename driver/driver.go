// Package driver puts the fence between database/sql and a database driver.
//
// A statement whose context carries a token (see package guard) is sent with
// the fence spliced in, after a check in the same transaction, or not at all;
// every other statement is sent as it is. The packages driver/postgres,
// driver/mysql and driver/sqlite register ready-made drivers on import
// ("sqlfence-pgx", "sqlfence-mysql", "sqlfence-sqlite"); this package wraps any
// other.
package driver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

var (
	_ driver.Driver        = (*fenceDriver)(nil)
	_ driver.DriverContext = (*fenceDriver)(nil)
)

// Option is an option of [Register], [Wrap] and [WrapConnector].
type Option func(*config)

// config is what the connections of one connector share; immutable.
type config struct {
	engine       sqlgen.Engine
	policy       guard.Policy
	databaseOf   func(dataSourceName string) (string, error)
	fake         Checker // nil: the database is asked
	checkAtBegin bool
	bounds       *Bounds
	boundArgs    []driver.NamedValue // of bounds; nil: none
}

// WithPolicy sets which writes need a token. Without it every write whose
// context carries a token is guarded, and none needs one.
func WithPolicy(p guard.Policy) Option {
	return func(c *config) { c.policy = p }
}

// Checker answers whether tokens are valid; see [FakeFence].
type Checker interface {
	Check(ctx context.Context, tokens ...guard.Token) error
}

// FakeFence is for a program's own tests: it asks the checker instead of the database:
// texts are sent as they are, without a fence. What could not be guarded is refused
// as ever, and so is what the checker refuses. See package guard/guardtest. Nothing
// is safe with it.
func FakeFence(c Checker) Option {
	return func(cfg *config) { cfg.fake = c }
}

// Register makes parent, wrapped, available to [sql.Open] under the name. Like
// [sql.Register] it panics if the name is taken or parent is nil, and it panics
// on an unknown engine; it is meant for init functions.
func Register(name string, parent driver.Driver, engine sqlgen.Engine, opts ...Option) {
	if slices.Contains(sql.Drivers(), name) {
		panic(fmt.Sprintf("sqlfence: a database/sql driver named %q is already registered; "+
			"register the wrapped driver once, under a name of its own", name))
	}
	sql.Register(name, Wrap(parent, engine, opts...))
}

// Wrap returns a driver whose connections are those of parent behind the
// fence. It panics if parent is nil or the engine is unknown. If parent is
// itself behind a fence, opening a connection fails with a *[guard.SetupError].
func Wrap(parent driver.Driver, engine sqlgen.Engine, opts ...Option) driver.Driver {
	if parent == nil {
		panic("sqlfence: the parent driver is nil")
	}
	return &fenceDriver{parent: parent, config: newConfig(engine, opts)}
}

func newConfig(engine sqlgen.Engine, opts []Option) config {
	switch engine {
	case sqlgen.PostgreSQL, sqlgen.SQLite, sqlgen.MySQL:
	default:
		panic(fmt.Sprintf("sqlfence: no fence for %s", engine))
	}
	c := config{engine: engine}
	for _, opt := range opts {
		opt(&c)
	}
	if c.bounds != nil {
		c.boundArgs = c.bounds.settings(engine)
	}
	return c
}

type fenceDriver struct {
	parent driver.Driver
	config config
}

// Open implements [driver.Driver].
func (d *fenceDriver) Open(name string) (driver.Conn, error) {
	raw, err := d.parent.Open(name)
	if err != nil {
		return nil, err
	}
	sh := newShared(d.config, nameConnector{name: name, driver: d.parent}.Connect)
	if err := sh.begin(name); err != nil {
		_ = raw.Close() // the error is the cause
		return nil, err
	}
	return newConn(raw, sh)
}

// OpenConnector implements [driver.DriverContext]. Where parent does not, the
// connector opens by name, as database/sql does.
func (d *fenceDriver) OpenConnector(name string) (driver.Connector, error) {
	var c driver.Connector = nameConnector{name: name, driver: d.parent}
	if parent, ok := d.parent.(driver.DriverContext); ok {
		var err error
		if c, err = parent.OpenConnector(name); err != nil {
			return nil, err
		}
	}
	sh := newShared(d.config, c.Connect)
	if err := sh.begin(name); err != nil {
		return nil, err
	}
	return &connector{parent: c, driver: d, shared: sh}, nil
}
