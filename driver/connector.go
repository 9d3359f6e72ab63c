package driver

import (
	"context"
	"database/sql/driver"
	"io"
	"sync/atomic"

	"github.com/sqlfence/sqlfence/sqlgen"
)

var (
	_ driver.Connector = (*connector)(nil)
	_ io.Closer        = (*connector)(nil) // as if absent where the parent has none
	_ driver.Connector = nameConnector{}
)

// WrapConnector returns a connector for [database/sql.OpenDB] whose connections
// are those of parent behind the fence. It panics if parent is nil or the engine
// is unknown. If parent is itself behind a fence, connecting fails with a
// *[guard.SetupError]. Closing the database closes parent, if parent can be
// closed.
func WrapConnector(parent driver.Connector, engine sqlgen.Engine, opts ...Option) driver.Connector {
	if parent == nil {
		panic("sqlfence: the parent connector is nil")
	}
	c := newConfig(engine, opts)
	return &connector{
		parent: parent,
		driver: &fenceDriver{parent: parent.Driver(), config: c},
		shared: newShared(c, parent.Connect),
	}
}

type connector struct {
	parent driver.Connector
	driver driver.Driver
	shared *shared
}

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.parent.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return newConn(raw, c.shared)
}

// Driver implements [driver.Connector]. Connections opened through the driver
// are behind the fence too.
func (c *connector) Driver() driver.Driver { return c.driver }

// Close implements [io.Closer].
func (c *connector) Close() error {
	c.shared.aside.close()
	if closer, ok := c.parent.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// shared is what the connections of one connector have in common. It is safe
// for concurrent use.
type shared struct {
	config
	cache    *sqlgen.Cache
	standard *sqlgen.Cache // for sessions with standard strings and a safe encoding
	verified atomic.Bool   // the schema was found to be there, and of our version
	seen     seenTokens
	aside    aside
	place    atomic.Pointer[place] // MySQL: where the fence is; nil until that is known
	charset  atomic.Bool           // MySQL: connections begin with a character set that is understood
	maria    atomic.Bool           // MySQL: the server is MariaDB
	// connect opens a bare connection to the same database.
	connect func(context.Context) (driver.Conn, error)
}

func newShared(c config, connect func(context.Context) (driver.Conn, error)) *shared {
	return &shared{
		config:   c,
		cache:    sqlgen.NewCache(c.engine, c.untilExpiry()...),
		standard: sqlgen.NewCache(c.engine, append(c.untilExpiry(), sqlgen.StandardStrings(), sqlgen.SafeEncoding())...),
		connect:  connect,
	}
}

// untilExpiry returns what the policy means for the texts of checks.
func (c *config) untilExpiry() []sqlgen.Option {
	if c.policy.EndsAtExpiry() {
		return []sqlgen.Option{sqlgen.UntilExpiry()}
	}
	return nil
}

// begin reads off the name what can be.
func (s *shared) begin(dataSourceName string) error {
	if s.engine != sqlgen.MySQL || s.databaseOf == nil {
		return nil
	}
	database, err := s.databaseOf(dataSourceName)
	if err != nil {
		return err
	}
	s.place.Store(placeAt(s.engine, database))
	return nil
}

// nameConnector opens by name, for drivers without [driver.DriverContext].
type nameConnector struct {
	name   string
	driver driver.Driver
}

func (c nameConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.name) }

func (c nameConnector) Driver() driver.Driver { return c.driver }
