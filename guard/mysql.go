package guard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// The errors of MariaDB and MySQL that matter here, by number: no server translates
// those.
const (
	mysqlDatabaseDenied  = 1044
	mysqlNoDatabase      = 1046
	mysqlUnknownDatabase = 1049
	mysqlTableDenied     = 1142
	mysqlColumnDenied    = 1143
	mysqlNoTable         = 1146
	mysqlPrivilege       = 1227
	mysqlNoProcedure     = 1305
	mysqlBrokenView      = 1356
	mysqlRoutineDenied   = 1370
	mysqlNoDefiner       = 1449
	mysqlSignal          = 1644 // with a SQLSTATE of ours
)

// mysqlError returns what the error of MariaDB or MySQL in the chain of err tells;
// number 0 where there is none. The error of github.com/go-sql-driver/mysql has
// fields and no methods, and this package links no driver, so the fields are asked
// for by name.
func mysqlError(err error) (number int, state, message string) {
	if err == nil {
		return 0, "", ""
	}
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct {
		n, s, m := v.FieldByName("Number"), v.FieldByName("SQLState"), v.FieldByName("Message")
		if n.IsValid() && n.Kind() == reflect.Uint16 && s.IsValid() && s.Type() == reflect.TypeFor[[5]byte]() && m.IsValid() && m.Kind() == reflect.String {
			var b [5]byte
			reflect.Copy(reflect.ValueOf(b[:]), s)
			return int(n.Uint()), string(b[:]), m.String()
		}
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return mysqlError(u.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range u.Unwrap() {
			if number, state, message := mysqlError(e); number != 0 {
				return number, state, message
			}
		}
	}
	return 0, "", ""
}

// fromMySQL is FromServer for the servers of that family. Their guard refuses by an
// empty answer, so none of these is a refused token.
func fromMySQL(err error) error {
	number, state, message := mysqlError(err)
	switch number {
	case mysqlSignal:
		switch {
		case !strings.HasPrefix(message, "sqlfence: "):
		case state == stateInvalid:
			return &invalidError{err}
		case state == stateSchema:
			return &SetupError{Problem: "the fence refuses to work", Remedy: "see the error; where tables are missing, run guard.Migrate", Err: err}
		case state == stateRight:
			return &SetupError{
				Problem: "the account of the schema may not see who holds the fence",
				Remedy:  strings.TrimPrefix(message, "sqlfence: "),
				Err:     err,
			}
		}
	case mysqlTableDenied, mysqlColumnDenied, mysqlRoutineDenied:
		if namesOurs(message) {
			return mysqlDenied(err)
		}
	case mysqlNoTable, mysqlNoProcedure:
		if namesOurs(message) {
			return &SetupError{Problem: "the schema of sqlfence is missing in this database, or of another version", Remedy: "run guard.Migrate", Err: err}
		}
	case mysqlBrokenView, mysqlNoDefiner:
		if namesOurs(message) || number == mysqlNoDefiner {
			return &SetupError{
				Problem: "the account that ran guard.Migrate is gone or has lost its rights on the tables of sqlfence",
				Remedy:  "give it back, or drop the views and procedures of sqlfence and run guard.Migrate as another",
				Err:     err,
			}
		}
	}
	return nil
}

// namesOurs reports whether the message names an object of ours; the database may
// have a name that begins like theirs.
func namesOurs(message string) bool {
	for _, object := range []string{"guard", "schema", "lease", "request", "meta", "leases", "fences", "abandoned",
		"acquire", "abandon", "renew", "release", "advance", "inspect", "inspect_prefix", "blockers", "cancel", "purge"} {
		if names(message, "sqlfence_"+object) {
			return true
		}
	}
	return false
}

// mysqlDenied is the error of an account without privileges. The server does not
// tell it whether the object is there.
func mysqlDenied(err error) error {
	return &SetupError{
		Problem: "this account may not use the fence, or the schema of sqlfence is missing in this database",
		Remedy: "run guard.Migrate as an account that may, and in the same database: " +
			strings.ReplaceAll(strings.TrimSpace(sqlgen.Grants(sqlgen.MySQL, "this account")), "\n", " "),
		Err: err,
	}
}

// mysqlVersion judges the answer to the question for the schema's version.
func mysqlVersion(version int64, err error) (int64, error) {
	switch number, _, _ := mysqlError(err); number {
	case mysqlNoTable:
		return 0, nil
	case mysqlNoDatabase, mysqlUnknownDatabase:
		return 0, noDatabase(err)
	}
	if err == nil {
		return version, nil
	}
	if setup := fromMySQL(err); setup != nil {
		return 0, setup
	}
	return 0, err
}

func noDatabase(err error) error {
	return &SetupError{Problem: "the connection is in no database", Remedy: "name one in the data source name", Err: err}
}

// mysqlMode keeps the session's sql_mode out of the schema: procedures remember the
// one they are created under, and ORACLE changes their language.
const mysqlMode = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"

func migrateMySQL(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	// Whatever is not undone ends with the connection.
	clean := false
	defer func() {
		if !clean {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		conn.Close()
	}()

	// Programs that start at once wait for each other here. DDL cannot be rolled
	// back, and each statement of the schema does nothing where it is done already.
	var name sql.NullString
	var version string
	// SHA1 has gone from MySQL with 9.6.
	if err := conn.QueryRowContext(ctx, "SELECT CONCAT('sqlfence.migrate.', LEFT(SHA2(DATABASE(), 256), 32)), VERSION()").Scan(&name, &version); err != nil {
		return err
	}
	if oldest := newerThan(version); oldest != "" {
		return &SetupError{Problem: "the server's version " + version + " is too old", Remedy: "use " + oldest + " or newer"}
	}
	if !name.Valid {
		return noDatabase(nil)
	}
	for got := int64(0); got != 1; {
		var answer sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK('"+name.String+"', 10)").Scan(&answer); err != nil {
			return err
		}
		got = answer.Int64
	}
	var mode string
	if err := conn.QueryRowContext(ctx, "SELECT @@SESSION.sql_mode").Scan(&mode); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "SET SESSION sql_mode = '"+mysqlMode+"'"); err != nil {
		return err
	}
	if err := apply(ctx, conn, sqlgen.MySQL); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "SET SESSION sql_mode = '"+mode+"'"); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "DO RELEASE_LOCK('"+name.String+"')"); err != nil {
		return err
	}
	clean = true
	return nil
}

// newerThan returns the oldest version that sqlfence works with, if the server's is
// older: one without CREATE PROCEDURE IF NOT EXISTS, or without SKIP LOCKED. A version
// that is not understood is left to what the server says to the schema.
func newerThan(version string) string {
	oldest, name := []int{8, 0, 29}, "MySQL 8.0.29"
	if strings.Contains(version, "MariaDB") {
		oldest, name = []int{10, 6}, "MariaDB 10.6"
		version = strings.TrimPrefix(version, "5.5.5-") // what old clients are told
	}
	number, _, _ := strings.Cut(version, "-")
	var numbers []int
	for _, field := range strings.Split(number, ".") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return ""
		}
		numbers = append(numbers, n)
	}
	if slices.Compare(numbers, oldest) >= 0 {
		return ""
	}
	return name
}

// mysqlInterrupted are the errors that no handler of a procedure sees: shutdown,
// KILL QUERY, KILL CONNECTION, max_statement_time, max_execution_time.
var mysqlInterrupted = []int{1053, 1317, 1927, 1969, 3024}

// mysqlMayNotCreate returns the error of an account that may not create the schema,
// and nil for every other.
func mysqlMayNotCreate(err error) error {
	switch number, _, _ := mysqlError(err); number {
	case mysqlDatabaseDenied, mysqlTableDenied, mysqlColumnDenied, mysqlPrivilege, mysqlRoutineDenied:
		return &SetupError{
			Problem: "this account may not create the schema of sqlfence",
			Remedy: "run guard.Migrate once as an account with CREATE, CREATE VIEW, DROP, CREATE ROUTINE, SELECT, INSERT, UPDATE, DELETE and EXECUTE on the database; " +
				"then, for this one: " + strings.ReplaceAll(strings.TrimSpace(sqlgen.Grants(sqlgen.MySQL, "this account")), "\n", " "),
			Err: err,
		}
	}
	return nil
}

// checkMySQL asks the view as a guarded write does.
func checkMySQL(ctx context.Context, q Querier) error {
	rows, err := q.QueryContext(ctx, sqlgen.CheckSQL(sqlgen.MySQL, 1), sqlgen.ResourceParam(sqlgen.MySQL, "sqlfence"), int64(1), int64(0))
	if err == nil {
		err = errors.Join(rows.Err(), rows.Close())
	}
	if err == nil {
		return nil
	}
	if setup := fromMySQL(err); setup != nil {
		return setup
	}
	return err
}

// ServerNumber returns the number of the error of MariaDB or MySQL in the chain of
// err, 0 where there is none.
func ServerNumber(err error) int {
	number, _, _ := mysqlError(err)
	return number
}
