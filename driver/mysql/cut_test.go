package mysql_test

import (
	"context"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/mysql"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// CASES D3, see [drivertest.World.WriteBeforeTheHeartbeat].
func TestAWriteThatArrivesBeforeTheHeartbeatIsFenced(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.WriteBeforeTheHeartbeat(func() drivertest.Line {
			proxy := testserver.NewProxy(t, config(t, w, nil).Addr)
			dsn := config(t, w, func(c *gomysql.Config) { c.Addr = proxy.Addr() }).FormatDSN()
			return drivertest.Line{
				DB: open(t, mysql.DriverName, dsn), Cut: proxy.Cut, Restore: proxy.Restore,
				Expire: `UPDATE sqlfence_leases SET expires_at = UTC_TIMESTAMP(6) WHERE resource = 'cut'`,
				Acquire: func(owner string, beside bool) (guard.Token, func(context.Context) error) {
					db := w.Bare
					if !beside {
						db = open(t, "mysql", dsn)
					}
					m, err := lease.NewManager(leasemysql.New(db), lease.TTL(time.Hour), lease.Owner(owner))
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
