// Package native lets the package of an engine tell the generic driver what
// only the database's own connection knows, so that the generic driver imports
// no database package.
package native

import (
	"context"
	"database/sql/driver"
)

// Conn is what an engine's package knows of one connection. Like the
// connection, it is used by one goroutine at a time.
type Conn interface {
	// InTransaction reports whether the server, after the last statement, is
	// inside a transaction, a failed one included.
	InTransaction() bool

	// Leading returns how many of the first arguments are options for the
	// driver rather than values of placeholders, and whether one of them
	// rewrites the text.
	Leading(args []driver.NamedValue, query bool) (n int, rewrites bool)

	// Rewrite applies the rewriting option among the leading arguments, and
	// returns text and arguments without it.
	Rewrite(ctx context.Context, text string, args []driver.NamedValue, query bool) (string, []driver.NamedValue, error)

	// Unprepared returns the option that keeps an Exec whose only arguments
	// are those of the fence from becoming a prepared statement, where the
	// driver would not have prepared it without them.
	Unprepared() (driver.Value, bool)

	// Widths returns how many characters each of the values behind the options takes
	// up, if the driver writes the values into the text; nil if it does not. They
	// are those of a direct execution. False where that is not known.
	Widths(args []driver.NamedValue) ([]int, bool)

	// StandardStrings reports that the session, as of the server's last
	// answer, reads a backslash in a plain string as itself. False where that
	// is unknown.
	StandardStrings() bool

	// Encoding returns the session's client_encoding, as of the server's last
	// answer, in its spelling; "" where that is unknown.
	Encoding() string

	// Misread reports that Misreads was called, by whoever uses the connection.
	Misread() bool

	// Misreads notes, for as long as the connection lives, that a text was sent
	// whose reading depends on these two while they were not what they usually
	// are: of what was prepared then, pgx's own cache included, nothing tells.
	Misreads()

	// Alone reports that err says that the statement does not run inside of a
	// transaction.
	Alone(err error) bool
}

var opener func(driver.Conn) Conn

// Register makes open known; open returns nil for connections that it does not
// know. To be called from an init function, at most once per program.
func Register(open func(driver.Conn) Conn) {
	if opener != nil {
		panic("sqlfence: native.Register called twice")
	}
	opener = open
}

// Of returns what is known of the connection, or nil.
func Of(c driver.Conn) Conn {
	if opener == nil {
		return nil
	}
	return opener(c)
}
