package parents

import (
	"database/sql"
	"testing"

	"github.com/mattn/go-sqlite3"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func init() { fence.Register("sqlfence-mattn", &sqlite3.SQLiteDriver{}, sqlgen.SQLite) }

const pragmas = "?_busy_timeout=10000&_journal_mode=WAL&_synchronous=OFF"

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

var engine = drivertest.Engine{
	Engine: sqlgen.SQLite,
	New: func(t *testing.T) (fenced, bare *sql.DB) {
		dsn := "file:" + testserver.SQLiteFile(t) + pragmas
		fenced, bare = open(t, "sqlfence-mattn", dsn), open(t, "sqlite3", dsn)
		if err := guard.Migrate(t.Context(), bare, sqlgen.SQLite); err != nil {
			t.Fatal(err)
		}
		return fenced, bare
	},
	Refused: []string{"UPDATE d SET v = 'x'; DELETE FROM d", "VACUUM", "nonsense about d", "ATTACH ':memory:' AS other"},
	Lazy:    true,
}

func TestMattnEveryKindOfWrite(t *testing.T) { drivertest.EveryKind(t, engine) }

func TestMattnFailsClosed(t *testing.T) { drivertest.FailClosed(t, engine) }

func TestMattnPoisonedTransaction(t *testing.T) { drivertest.PoisonedTransaction(t, engine) }

func TestMattnTheExecutingContextDecides(t *testing.T) { drivertest.ExecutingContextDecides(t, engine) }

func TestMattnComparedWithTheBareDriver(t *testing.T) {
	drivertest.Compare(t, drivertest.NewWorld(t, engine), drivertest.SQLiteComparison)
}
