package repertoire

import (
	"context"
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql" // registers "mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // registers "pgx"
	_ "modernc.org/sqlite"             // registers "sqlite"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// Engine is a kind of database to play on.
type Engine struct {
	engine   sqlgen.Engine
	driver   string // the bare one, for looking at the rows
	quote    string // around a name
	looks    []any  // leading arguments of its queries
	document string // a query for the text of a value that may be a document in the engine's own form, or NULL; "" if there are none
	tables   string // a query for the names of all tables that are not the fence's
	each     func(t *testing.T, play func(t *testing.T, database func() string))
}

// PostgreSQL is every PostgreSQL server of this run. A DSN is a URL.
var PostgreSQL = Engine{
	engine: sqlgen.PostgreSQL,
	driver: "pgx",
	quote:  `"`,
	looks:  []any{pgx.QueryExecModeExec}, // a plan that is kept fails when columns are added
	tables: `SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'public' ORDER BY 1`,
	each: func(t *testing.T, play func(*testing.T, func() string)) {
		for _, server := range testserver.PostgreSQL(t) {
			t.Run("PostgreSQL_"+server.Version, func(t *testing.T) {
				play(t, func() string { return server.Database(t) })
			})
		}
	},
}

// SQLite is SQLite in a file. A DSN is one of modernc.org/sqlite, with foreign
// keys enforced.
var SQLite = Engine{
	engine:   sqlgen.SQLite,
	driver:   "sqlite",
	quote:    `"`,
	document: `SELECT CASE WHEN json_valid(?1, 8) THEN json(?1) END`, // JSONB
	tables:   `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name NOT LIKE 'sqlfence\_%' ESCAPE '\' ORDER BY 1`,
	each: func(t *testing.T, play func(*testing.T, func() string)) {
		t.Run("SQLite", func(t *testing.T) {
			play(t, func() string {
				return "file:" + testserver.SQLiteFile(t) + "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=synchronous(0)"
			})
		})
	},
}

// MariaDB is every server of MariaDB or MySQL of this run. A DSN is one of
// go-sql-driver/mysql.
var MariaDB = Engine{
	engine: sqlgen.MySQL,
	driver: "mysql",
	quote:  "`",
	tables: `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name NOT LIKE 'sqlfence%' ORDER BY 1`,
	each: func(t *testing.T, play func(*testing.T, func() string)) {
		for _, server := range testserver.MySQL(t) {
			t.Run(server.Engine+"_"+server.Version, func(t *testing.T) {
				play(t, func() string { return withTimes(t, server.Database(t)) })
			})
		}
	},
}

// withTimes adds the parameter without which times are read as text.
func withTimes(t *testing.T, dsn string) string {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.ParseTime = true
	return c.FormatDSN()
}

// Fenced calls fn, on every server of the engine, with an empty database that has
// the fence, and with contexts that carry a stale token and a valid one.
func (e Engine) Fenced(t *testing.T, fn func(t *testing.T, dsn string, staleCtx, validCtx context.Context)) {
	e.each(t, func(t *testing.T, database func() string) {
		dsn := database()
		e.look(t, dsn)
		fn(t, dsn, guard.With(t.Context(), stale), guard.With(t.Context(), valid))
	})
}

// look opens a bare handle on the database, for looking at its rows, and creates
// the fence there with its mark, as the lease store does when it grants a lease.
func (e Engine) look(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(e.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := guard.Migrate(t.Context(), db, e.engine); err != nil {
		t.Fatal(err)
	}
	if err := guard.NewFence(db, e.engine).Advance(t.Context(), valid); err != nil {
		t.Fatal(err)
	}
	return db
}
