package memory

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
)

func TestConformance(t *testing.T) {
	var ahead atomic.Int64 // of the machine's clock
	leasetest.Run(t, leasetest.Config{
		New: func(testing.TB) lease.Store {
			return New(Clock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
		},
		Lapse: func(testing.TB, lease.Store, string) { ahead.Add(int64(2 * time.Hour)) },
		SetMark: func(_ testing.TB, store lease.Store, resource string, mark int64) {
			s := store.(*Store)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.records[resource] == nil {
				s.records[resource] = &record{}
			}
			s.records[resource].mark = mark
		},
	})
}
