package mysql_test

import (
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

func acquire(w *drivertest.World, resource string) guard.Token {
	w.T.Helper()
	m, err := lease.NewManager(leasemysql.New(w.Bare), lease.TTL(time.Hour))
	w.Want("NewManager", err, nil)
	l, err := m.TryAcquire(w.T.Context(), resource)
	if err != nil {
		w.T.Fatal(err)
	}
	return l.Token()
}

func expire(w *drivertest.World, resource string) {
	w.Must(w.Bare, `UPDATE sqlfence_leases SET expires_at = UTC_TIMESTAMP(6) WHERE resource = '`+resource+`'`)
}

// SPEC §5, the liveness option.
func TestUntilExpiry(t *testing.T) {
	for _, server := range testserver.MySQL(t) {
		drivertest.UntilExpiry(t, on(server, unchanged), withPolicy, acquire, expire)
	}
}

// The expiry is that of the server's clock: a session's time zone and clock have no say.
func TestUntilExpiryBySessionsWithAClockOfTheirOwn(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		p, err := guard.NewPolicy(guard.UntilExpiry())
		w.Want("NewPolicy", err, nil)
		live, over := acquire(w, "live"), acquire(w, "over")
		expire(w, "over")
		for _, setting := range []map[string]string{{"time_zone": "'+09:00'"}, {"time_zone": "'-11:00'"}, {"timestamp": "1000000"}} {
			db := like(t, w, func(c *gomysql.Config) { c.Params = setting }, fence.WithPolicy(p))
			w.Want("live", second(db.ExecContext(w.With(live), `UPDATE d SET v = v`)), nil)
			w.Want("expired", second(db.ExecContext(w.With(over), `UPDATE d SET v = 'x'`)), guard.ErrExpired)
		}
		// A renewal does not wait for a guarded transaction, and is seen.
		db := like(t, w, nil, fence.WithPolicy(p))
		tx := w.Begin(w.With(live), db)
		w.Must(tx, `UPDATE d SET v = 'kept' WHERE id = 1`)
		w.Must(w.Bare, `UPDATE sqlfence_leases SET expires_at = TIMESTAMPADD(HOUR, 2, UTC_TIMESTAMP(6)) WHERE resource = 'live'`)
		w.Must(tx, `UPDATE d SET v = 'one' WHERE id = 1`)
		w.Want("Commit", tx.Commit(), nil)
		w.IsUntouched()
	})
}
