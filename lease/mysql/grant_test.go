package mysql_test

import (
	"database/sql"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// CASES D13, see [holdtest.TTLCountsFromTheGrant].
func TestTheTTLCountsFromTheGrant(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn, nil)
		d := fencetest.OpenMySQL(t, dsn)
		holdtest.TTLCountsFromTheGrant(t, leasemysql.New(db), holdtest.Waits{
			DB:    db,
			On:    func(tx *sql.Tx) lease.Store { return leasemysql.New(tx) },
			Clock: `SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`,
			Guard: func(token guard.Token) func() {
				holder := d.Session()
				hold(t, holder, token)
				return func() { holder.Must("COMMIT") }
			},
			UntilWaiting: func() { d.UntilWaiting(1, inFenceLock) },
		})
	})
}

// CASES D13 (a), see [holdtest.AClientsClockDecidesNothing].
func TestAClientsClockDecidesNothing(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		holdtest.AClientsClockDecidesNothing(t, func(t *testing.T) lease.Store { return leasemysql.New(open(t, dsn, nil)) })
	})
}
