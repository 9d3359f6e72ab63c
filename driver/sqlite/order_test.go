package sqlite_test

import (
	"database/sql"
	"flag"
	"testing"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
)

var roundsFlag = flag.Int("rounds", 20, "rounds of the test of the lock order")

// CASES D31: there is one lock, that of the writer; who takes it at BEGIN is never told
// that the database is busy for having read before.
func TestTheFenceBeforeTheDataNeverDeadlocks(t *testing.T) {
	atBegin := func(t *testing.T, w *drivertest.World) *sql.DB { return like(t, w, fence.CheckAtBegin()) }
	drivertest.LockOrder(t, engine, atBegin, *roundsFlag)
}
