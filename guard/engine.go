package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// known returns an error for an engine that package sqlgen does not have, such as 0.
func known(engine sqlgen.Engine) error {
	switch engine {
	case sqlgen.PostgreSQL, sqlgen.SQLite, sqlgen.MySQL:
		return nil
	}
	return fmt.Errorf("%w: engine %d: pass one of package sqlgen's", ErrInvalidInput, engine)
}

// WrongEngine returns a *[SetupError] if err, of a statement of the fence's own, shows
// that the database is not of the engine: it does not know what every database of
// the engine knows, and says so as another engine does. Otherwise it returns nil,
// for all errors that a database of the engine can give too.
func WrongEngine(err error, engine sqlgen.Engine) error {
	if err == nil || errors.Is(err, ErrSetup) {
		return nil
	}
	answered := speaks(err)
	if answered == 0 || answered == engine {
		return nil
	}
	return &SetupError{
		Problem: fmt.Sprintf("the database does not answer as %v, but as %v does", engine, answered),
		Remedy:  "pass the sqlgen.Engine, the lease store and the driver of one and the same engine",
		Err:     err,
	}
}

// speaks returns the engine whose way it is to say that a text is not understood, or
// that what it names is not there; 0 for all other errors.
func speaks(err error) sqlgen.Engine {
	if number, _, _ := mysqlError(err); number != 0 {
		// 1046, 1049, 1064, 1146, 1305: no database, unknown database, syntax, no table, no routine
		if slices.Contains([]int{mysqlNoDatabase, mysqlUnknownDatabase, 1064, mysqlNoTable, mysqlNoProcedure}, number) {
			return sqlgen.MySQL
		}
		return 0
	}
	if state := SQLState(err); state != "" {
		// a savepoint outside of a transaction; undefined database or schema, syntax, undefined column, function, table or parameter
		if slices.Contains([]string{"25P01", "3D000", "3F000", "42601", "42703", "42883", "42P01", "42P02"}, state) {
			return sqlgen.PostgreSQL
		}
		return 0
	}
	text := err.Error() // SQLite never translates it
	for _, said := range []string{"\": syntax error", "no such table: ", "no such function: ", "no such column: ", "unrecognized token: ", "unknown database "} {
		if strings.Contains(text, said) {
			return sqlgen.SQLite
		}
	}
	return 0
}
