package mysql_test

import (
	"database/sql"
	"testing"

	mysqldriver "github.com/sqlfence/sqlfence/driver/mysql"
	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// CASES D4, see [holdtest.LossEndsTheWork]. The statement goes on in the server: it looks
// after its client only when it has an answer.
func TestALossEndsWhatTheWorkerRuns(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		bare := open(t, dsn, nil)
		fenced, err := sql.Open(mysqldriver.DriverName, dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fenced.Close() })
		if _, err := bare.Exec(`CREATE TABLE d (v TEXT) ENGINE = InnoDB`); err != nil {
			t.Fatal(err)
		}
		holdtest.LossEndsTheWork(t, leasemysql.New(fenced), holdtest.Worker{
			DB: fenced, Sleep: `SELECT SLEEP(60)`,
			Sleeping: func() (n int) {
				if err := bare.QueryRow(`SELECT count(*) FROM information_schema.processlist
					WHERE db = DATABASE() AND info = 'SELECT SLEEP(60)'`).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			},
			TakeOver: func() {
				lapse(t, bare, "job")
				mustAcquire(t, leasemysql.New(bare), "job", "B")
			},
		})
	})
}
