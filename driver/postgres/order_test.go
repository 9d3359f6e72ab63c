package postgres_test

import (
	"database/sql"
	"flag"
	"testing"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
)

var roundsFlag = flag.Int("rounds", 20, "rounds of the test of the lock order")

func atBegin(t *testing.T, w *drivertest.World) *sql.DB { return like(t, w, nil, fence.CheckAtBegin()) }

// CASES D31.
func TestTheFenceBeforeTheDataNeverDeadlocks(t *testing.T) {
	for _, e := range everyServer(t) {
		drivertest.LockOrder(t, e, atBegin, *roundsFlag)
	}
}

func TestADeadlockIsToldAsOne(t *testing.T) {
	for _, e := range everyServer(t) {
		drivertest.WrongOrder(t, e, waiting)
	}
}
