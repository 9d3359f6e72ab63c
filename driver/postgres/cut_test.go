package postgres_test

import (
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// CASES D3: a worker that was cut off from the database writes before its heartbeat
// has noticed anything. The database refuses it, and nothing in the process has to.
func TestAWriteThatArrivesBeforeTheHeartbeatIsFenced(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, takenOver := range []bool{true, false} {
			w.Reset()
			proxy, dsn := testserver.NewProxyDSN(t, config(t, w.Bare).ConnString())
			db := open(t, postgres.DriverName, dsn)
			old, err := lease.NewManager(leasepg.New(open(t, "pgx", dsn)), lease.TTL(time.Hour), lease.Owner("old"))
			w.Want("NewManager", err, nil)
			l, err := old.TryAcquire(t.Context(), "cut") // there is no heartbeat that could notice
			if err != nil {
				t.Fatal(err)
			}
			ctx := w.With(l.Token())
			w.Want("before", second(db.ExecContext(ctx, `UPDATE d SET v = 'old' WHERE id = 1`)), nil)
			proxy.Cut()
			w.Must(w.Bare, `UPDATE sqlfence.leases SET expires_at = clock_timestamp() WHERE resource = 'cut'`)
			if takenOver {
				next, err := lease.NewManager(leasepg.New(w.Bare), lease.TTL(time.Hour), lease.Owner("new"))
				w.Want("NewManager", err, nil)
				held, err := next.TryAcquire(t.Context(), "cut")
				if err != nil {
					t.Fatal(err)
				}
				w.Want("the new owner", second(w.Fenced.ExecContext(w.With(held.Token()), `UPDATE d SET v = 'new' WHERE id = 1`)), nil)
				w.Want("Release", held.Release(t.Context()), nil)
			}
			proxy.Restore()
			var want error
			after := "1 late 10|2 two 20|3 three 30"
			if takenOver {
				want, after = guard.ErrFenced, "1 new 10|2 two 20|3 three 30"
			}
			w.Want("autocommit", second(db.ExecContext(ctx, `UPDATE d SET v = 'late' WHERE id = 1`)), want)
			tx := w.Begin(ctx, db)
			w.Want("in a transaction", second(tx.Exec(`UPDATE d SET v = 'late' WHERE id = 1`)), want)
			w.Want("Commit", tx.Commit(), want)
			if got := w.Table(); got != after {
				t.Errorf("taken over %v: the table reads %q, want %q", takenOver, got, after)
			}
		}
	})
}
