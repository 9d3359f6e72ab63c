package parents

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/XSAM/otelsql"
	"modernc.org/sqlite"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	fencesqlite "github.com/sqlfence/sqlfence/driver/sqlite"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

const moderncPragmas = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"

// stacks are the ways to put the fence and otelsql over a driver.
var stacks = map[string]func(dsn string) (driver.Connector, error){
	"otelsql over the fence": func(dsn string) (driver.Connector, error) {
		c, err := connector(dsn)
		if err != nil {
			return nil, err
		}
		return otelsql.WrapDriver(fencesqlite.WrapConnector(c).Driver()).(driver.DriverContext).OpenConnector(dsn)
	},
	"the fence over otelsql": func(dsn string) (driver.Connector, error) {
		return fence.Wrap(otelsql.WrapDriver(bare()), sqlgen.SQLite).(driver.DriverContext).OpenConnector(dsn)
	},
	"otelsql over the fence over otelsql": func(dsn string) (driver.Connector, error) {
		return otelsql.WrapDriver(fence.Wrap(otelsql.WrapDriver(bare()), sqlgen.SQLite)).(driver.DriverContext).OpenConnector(dsn)
	},
}

func bare() driver.Driver {
	c, err := connector("")
	if err != nil {
		panic(err) // an empty name is not parsed
	}
	return c.Driver()
}

func connector(dsn string) (driver.Connector, error) { return sqlite.NewConnector(dsn) }

// SPEC G11: whichever lies over the other, writes are guarded as ever.
func TestStackedWithOtelsql(t *testing.T) {
	for name, stack := range stacks {
		e := drivertest.Engine{
			Engine: sqlgen.SQLite,
			New: func(t *testing.T) (fenced, plain *sql.DB) {
				dsn := "file:" + testserver.SQLiteFile(t) + moderncPragmas
				c, err := stack(dsn)
				if err != nil {
					t.Fatal(err)
				}
				fenced, plain = sql.OpenDB(c), open(t, "sqlite", dsn)
				t.Cleanup(func() { _ = fenced.Close() })
				if err := guard.Migrate(t.Context(), plain, sqlgen.SQLite); err != nil {
					t.Fatal(err)
				}
				return fenced, plain
			},
			Refused: []string{"VACUUM", "nonsense about d"},
		}
		t.Run(name, func(t *testing.T) {
			t.Run("fails closed", func(t *testing.T) { drivertest.FailClosed(t, e) })
			t.Run("poisoned transactions", func(t *testing.T) { drivertest.PoisonedTransaction(t, e) })
			t.Run("the executing context decides", func(t *testing.T) { drivertest.ExecutingContextDecides(t, e) })
			t.Run("roads around", func(t *testing.T) {
				w := drivertest.NewWorld(t, e)
				// The driver that the pool shows opens guarded connections too.
				opened, err := w.Fenced.Driver().Open("file:" + file(t, w.Bare) + moderncPragmas)
				if err != nil {
					t.Fatal(err)
				}
				defer opened.Close()
				_, err = opened.(driver.ExecerContext).ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'x'`, nil)
				w.Want("a connection of db.Driver()", err, guard.ErrFenced)
				// And so does what Conn.Raw shows; the one way around is fence.Raw.
				c := w.Conn(w.Fenced)
				w.Want("Raw", c.Raw(func(dc any) error {
					_, err := dc.(driver.ExecerContext).ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'x'`, nil)
					w.Want("the connection of Conn.Raw", err, guard.ErrFenced)
					raw, ok := fence.Raw(dc)
					if !ok || raw == dc {
						t.Errorf("Raw of a %T: %T, %v", dc, raw, ok)
					}
					return nil
				}), nil)
				w.IsUntouched()
			})
		})
	}
}

// A fence around a fence is refused also where otelsql lies between.
func TestAFenceOverOtelsqlOverAFenceIsRefused(t *testing.T) {
	twice := fence.Wrap(otelsql.WrapDriver(fence.Wrap(bare(), sqlgen.SQLite)), sqlgen.SQLite)
	if _, err := twice.Open("file:" + testserver.SQLiteFile(t)); !errors.Is(err, guard.ErrSetup) {
		t.Errorf("got error %v, want ErrSetup", err)
	}
}

func file(t *testing.T, db *sql.DB) string {
	t.Helper()
	var path string
	if err := db.QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path); err != nil {
		t.Fatal(err)
	}
	return path
}
