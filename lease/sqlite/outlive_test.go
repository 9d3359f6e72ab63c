package sqlite_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
)

// CASES D8, see [holdtest.LeaseOutlivesItsAcquire].
func TestALeaseOutlivesItsAcquire(t *testing.T) {
	t.Parallel() // it waits
	db, _ := open(t)
	holdtest.LeaseOutlivesItsAcquire(t, leasesqlite.New(db))
}
