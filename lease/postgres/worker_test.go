package postgres_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// CASES D4, see [holdtest.LossEndsTheWork].
func TestALossEndsWhatTheWorkerRuns(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, fencedDriver, dsn, "", "")
		if _, err := db.Exec(`CREATE TABLE d (v text)`); err != nil {
			t.Fatal(err)
		}
		sleeping := func() (n int) {
			if err := db.QueryRow(`SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND query = 'SELECT pg_sleep(600)' AND state = 'active'`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		holdtest.LossEndsTheWork(t, leasepg.New(db), holdtest.Worker{
			DB: db, Sleep: `SELECT pg_sleep(600)`, Sleeping: sleeping,
			TakeOver: func() {
				lapse(t, db, "job")
				mustAcquire(t, leasepg.New(db), "job", "B")
			},
		})
		until(t, "the statement ends in the server too", func() bool { return sleeping() == 0 })
	})
}
