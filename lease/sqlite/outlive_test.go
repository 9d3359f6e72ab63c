package sqlite_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
)

// CASES D8, see [holdtest.LeaseOutlivesItsAcquire].
func TestALeaseOutlivesItsAcquire(t *testing.T) {
	t.Parallel() // it waits
	db, _ := open(t)
	holdtest.LeaseOutlivesItsAcquire(t, leasesqlite.New(db))
}

// CASES D13 (a), see [holdtest.AClientsClockDecidesNothing].
func TestAClientsClockDecidesNothing(t *testing.T) {
	holdtest.AClientsClockDecidesNothing(t, func(t *testing.T) lease.Store {
		db, _ := open(t)
		return leasesqlite.New(db)
	})
}
