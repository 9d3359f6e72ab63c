package mysql_test

import (
	"database/sql"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/mysql"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestMain(m *testing.M) {
	leak.Main(m, goleak.IgnoreTopFunction("os/exec.(*Cmd).Wait"))
}

func open(t *testing.T, name, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(name, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// with returns the data source name with changes.
func with(t *testing.T, dsn string, change func(*gomysql.Config)) string {
	t.Helper()
	c, err := gomysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(c)
	return c.FormatDSN()
}

// on returns the engine on one server, with changes to the data source name.
func on(server testserver.Server, change func(*gomysql.Config)) drivertest.Engine {
	return drivertest.Engine{
		Engine:      sqlgen.MySQL,
		Server:      server.DSN,
		NoReturning: server.Engine == "MySQL",
		New: func(t *testing.T) (fenced, bare *sql.DB) {
			dsn := with(t, server.Database(t), change)
			fenced, bare = open(t, mysql.DriverName, dsn), open(t, "mysql", dsn)
			if err := guard.Migrate(t.Context(), bare, sqlgen.MySQL); err != nil {
				t.Fatal(err)
			}
			return fenced, bare
		},
		Refused: []string{
			"TRUNCATE d",
			"UPDATE d SET v = 'x' WHERE ((id = 1)",
			"CALL p()",
			"CREATE TABLE e (id INT)",
			"LOCK TABLES d WRITE",
			"SET autocommit = 0",
			"UPDATE d SET v = 'x' /*! WHERE id = 1 */",
			"nonsense about d",
		},
	}
}

func unchanged(*gomysql.Config) {}

// each runs the test on every server, with what go-sql-driver prepares prepared,
// and with it written into the text.
func each(t *testing.T, test func(t *testing.T, e drivertest.Engine)) {
	for _, server := range testserver.MySQL(t) {
		t.Run(server.Engine+"_"+server.Version, func(t *testing.T) { test(t, on(server, unchanged)) })
		t.Run(server.Engine+"_"+server.Version+", interpolated", func(t *testing.T) {
			test(t, on(server, func(c *gomysql.Config) { c.InterpolateParams = true }))
		})
	}
}

// eachWorld runs the test on every server, with a world.
func eachWorld(t *testing.T, test func(t *testing.T, w *drivertest.World)) {
	for _, server := range testserver.MySQL(t) {
		t.Run(server.Engine+"_"+server.Version, func(t *testing.T) { test(t, drivertest.NewWorld(t, on(server, unchanged))) })
	}
}

func TestG5AndG6EveryKindOfWriteOnEveryRoad(t *testing.T) { each(t, drivertest.EveryKind) }

func TestG4FailClosed(t *testing.T) { each(t, drivertest.FailClosed) }

func TestG8AFencedTransactionCannotCommit(t *testing.T) { each(t, drivertest.PoisonedTransaction) }

func TestG9TheExecutingContextDecides(t *testing.T) { each(t, drivertest.ExecutingContextDecides) }

func TestManyGoroutines(t *testing.T) { each(t, drivertest.Race) }

// config returns how to reach the database of the world, with changes.
func config(t *testing.T, w *drivertest.World, change func(*gomysql.Config)) *gomysql.Config {
	t.Helper()
	var name string
	if err := w.Bare.QueryRow(`SELECT DATABASE()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	c, err := gomysql.ParseDSN(w.Engine.Server)
	if err != nil {
		t.Fatal(err)
	}
	c.DBName = name
	if change != nil {
		change(c)
	}
	return c
}

// like opens the database of the world behind the fence, with options.
func like(t *testing.T, w *drivertest.World, change func(*gomysql.Config), opts ...fence.Option) *sql.DB {
	t.Helper()
	connector, err := gomysql.NewConnector(config(t, w, change))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(mysql.WrapConnector(connector, opts...))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func withPolicy(t *testing.T, w *drivertest.World, p guard.Policy) *sql.DB {
	return like(t, w, nil, fence.WithPolicy(p))
}

func TestPolicies(t *testing.T) {
	for _, server := range testserver.MySQL(t) {
		drivertest.Policies(t, on(server, unchanged), withPolicy)
	}
}

func TestBindingsAndAudit(t *testing.T) {
	for _, server := range testserver.MySQL(t) {
		drivertest.BindingsAndAudit(t, on(server, unchanged), withPolicy)
	}
}

func TestDatabaseThatIsNotSetUp(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		w := &drivertest.World{T: t, Engine: drivertest.Engine{Engine: sqlgen.MySQL}, Bare: open(t, "mysql", dsn)}
		drivertest.NotSetUp(t, w, open(t, mysql.DriverName, dsn))
	})
}
