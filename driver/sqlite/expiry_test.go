package sqlite_test

import (
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
)

// SPEC §5, the liveness option.
func TestUntilExpiry(t *testing.T) {
	acquire := func(w *drivertest.World, resource string) guard.Token {
		m, err := lease.NewManager(leasesqlite.New(w.Bare), lease.TTL(time.Hour))
		w.Want("NewManager", err, nil)
		l, err := m.TryAcquire(w.T.Context(), resource)
		if err != nil {
			w.T.Fatal(err)
		}
		return l.Token()
	}
	drivertest.UntilExpiry(t, engine, withPolicy, acquire, func(w *drivertest.World, resource string) {
		w.Must(w.Bare, `UPDATE main.sqlfence_leases SET expires_at = 1 WHERE resource = '`+resource+`'`)
	})
}
