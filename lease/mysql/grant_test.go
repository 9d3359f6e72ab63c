package mysql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// CASES D13: the TTL counts from the grant, by the clock and not by the start of the
// statement or of the transaction, however long the acquire waited.
func TestTheTTLCountsFromTheGrant(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn, nil)
		d := fencetest.OpenMySQL(t, dsn)
		s := leasemysql.New(db)
		clock := func(q interface {
			QueryRowContext(context.Context, string, ...any) *sql.Row
		}) time.Time {
			t.Helper()
			var now int64
			if err := q.QueryRowContext(t.Context(), `SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`).Scan(&now); err != nil {
				t.Fatal(err)
			}
			return time.UnixMicro(now)
		}

		// After a wait for an open guarded transaction.
		first := mustAcquire(t, s, "r", "A")
		holder := d.Session()
		hold(t, holder, first.Token)
		type result struct {
			granted lease.Granted
			err     error
		}
		done := make(chan result, 1)
		req := request("r", "A")
		req.TTL = 2 * time.Second
		go func() {
			g, err := s.Acquire(t.Context(), req)
			done <- result{g, err}
		}()
		d.UntilWaiting(1, inFenceLock)
		freed := clock(db)
		holder.Must("COMMIT")
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		if got.granted.Expiry.Before(freed.Add(req.TTL)) || got.granted.TTL != req.TTL {
			t.Errorf("granted until %v after a wait that ended at %v, TTL %v", got.granted.Expiry, freed, got.granted.TTL)
		}

		// In a transaction of the caller's that is older.
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		before := clock(tx)
		g, err := leasemysql.New(tx).Acquire(t.Context(), request("r2", "A"))
		if err != nil {
			t.Fatal(err)
		}
		if g.Expiry.Before(before.Add(time.Minute)) {
			t.Errorf("granted until %v in a transaction where it was %v before", g.Expiry, before)
		}
	})
}
