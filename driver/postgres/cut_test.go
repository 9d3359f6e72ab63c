package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// CASES D3, see [drivertest.World.WriteBeforeTheHeartbeat].
func TestAWriteThatArrivesBeforeTheHeartbeatIsFenced(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.WriteBeforeTheHeartbeat(func() drivertest.Line {
			proxy, dsn := testserver.NewProxyDSN(t, config(t, w.Bare).ConnString())
			return drivertest.Line{
				DB: open(t, postgres.DriverName, dsn), Cut: proxy.Cut, Restore: proxy.Restore,
				Expire: `UPDATE sqlfence.leases SET expires_at = clock_timestamp() WHERE resource = 'cut'`,
				Acquire: func(owner string, beside bool) (guard.Token, func(context.Context) error) {
					db := w.Bare
					if !beside {
						db = open(t, "pgx", dsn)
					}
					m, err := lease.NewManager(leasepg.New(db), lease.TTL(time.Hour), lease.Owner(owner))
					w.Want("NewManager", err, nil)
					l, err := m.TryAcquire(t.Context(), "cut")
					if err != nil {
						t.Fatal(err)
					}
					return l.Token(), l.Release
				},
			}
		})
	})
}
