package driver_test

import (
	"database/sql"
	"regexp"
	"testing"

	"github.com/lib/pq"
	"go.uber.org/goleak"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestMain(m *testing.M) {
	fence.Register("sqlfence-pq", &pq.Driver{}, sqlgen.PostgreSQL)
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("os/exec.(*Cmd).Wait"))
}

// lib/pq stands for every driver of which this package knows no more than that
// it speaks to PostgreSQL.
func TestDriverOfWhichNothingIsKnown(t *testing.T) {
	server := testserver.PostgreSQL(t)[0]
	open := func(t *testing.T, name, dsn string) *sql.DB {
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
	e := drivertest.Engine{
		Engine: sqlgen.PostgreSQL,
		New: func(t *testing.T) (fenced, bare *sql.DB) {
			dsn := server.Database(t)
			fenced, bare = open(t, "sqlfence-pq", dsn), open(t, "postgres", dsn)
			if err := guard.Migrate(t.Context(), bare, sqlgen.PostgreSQL); err != nil {
				t.Fatal(err)
			}
			return fenced, bare
		},
		Refused: []string{"UPDATE d SET v = 'x'; DELETE FROM d", "COPY d FROM STDIN", "VACUUM d"},
	}
	t.Run("every kind of write", func(t *testing.T) { drivertest.EveryKind(t, e) })
	t.Run("fail closed", func(t *testing.T) { drivertest.FailClosed(t, e) })
	t.Run("poisoned transactions", func(t *testing.T) { drivertest.PoisonedTransaction(t, e) })
	t.Run("the executing context decides", func(t *testing.T) { drivertest.ExecutingContextDecides(t, e) })
	t.Run("compared with the bare driver", func(t *testing.T) {
		c := drivertest.PostgreSQLComparison
		c.Roads = []string{"DB.Exec", "DB.Query", "Stmt.Query, twice", "Tx.Stmt", "an ended context"}
		// lib/pq writes into the text at which place of the statement the error is.
		place := regexp.MustCompile(` at (column|position) [0-9:]+`)
		c.Same = func(note string) string { return place.ReplaceAllString(note, "") }
		drivertest.Compare(t, drivertest.NewWorld(t, e), c)
	})
	t.Run("not set up", func(t *testing.T) {
		dsn := server.Database(t)
		w := &drivertest.World{T: t, Engine: e, Bare: open(t, "postgres", dsn)}
		drivertest.NotSetUp(t, w, open(t, "sqlfence-pq", dsn))
	})
}
