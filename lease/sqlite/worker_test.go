package sqlite_test

import (
	"testing"

	sqlitedriver "github.com/sqlfence/sqlfence/driver/sqlite"
	"github.com/sqlfence/sqlfence/internal/holdtest"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
)

// CASES D4, see [holdtest.LossEndsTheWork].
func TestALossEndsWhatTheWorkerRuns(t *testing.T) {
	bare, file := open(t)
	mustExec(t, bare, "CREATE TABLE d (v TEXT)")
	fenced := openWith(t, sqlitedriver.DriverName, file, walAndTimeout)
	holdtest.LossEndsTheWork(t, leasesqlite.New(bare), holdtest.Worker{
		DB:       fenced,
		Sleep:    `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`, // it never ends
		Sleeping: func() int { return fenced.Stats().InUse },
		TakeOver: func() {
			expire(t, bare, "job")
			mustAcquire(t, leasesqlite.New(bare), request("job", "B"))
		},
	})
}
