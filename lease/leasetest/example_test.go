package leasetest_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	"github.com/sqlfence/sqlfence/lease/memory"
)

// A store is held to the contract by one test; here the memory store, whose
// clock is set forward to make leases lapse.
func ExampleRun() {
	TestConformance := func(t *testing.T) {
		var ahead atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		leasetest.Run(t, leasetest.Config{
			New:   func(testing.TB) lease.Store { return memory.New(memory.Clock(clock)) },
			Lapse: func(testing.TB, lease.Store, string) { ahead.Add(int64(2 * time.Hour)) },
		})
	}
	_ = TestConformance
}
