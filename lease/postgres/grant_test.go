package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// CASES D13, see [holdtest.TTLCountsFromTheGrant].
func TestTheTTLCountsFromTheGrant(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		d := fencetest.Attach(t, dsn)
		holdtest.TTLCountsFromTheGrant(t, leasepg.New(db), holdtest.Waits{
			DB:    db,
			On:    func(tx *sql.Tx) lease.Store { return leasepg.New(tx) },
			Clock: `SELECT (extract(epoch FROM clock_timestamp())::numeric * 1000000)::bigint`,
			Guard: func(token guard.Token) func() {
				holder := d.Session()
				holder.Must(`BEGIN`)
				holder.Must(`SELECT sqlfence.pass($1, $2, $3)`, token.Resource, token.Epoch, token.Grant)
				return func() { holder.Must(`COMMIT`) }
			},
			UntilWaiting: func() { d.UntilWaiting(1, "sqlfence.acquire") },
		})
	})
}

// CASES D13 (a), see [holdtest.AClientsClockDecidesNothing].
func TestAClientsClockDecidesNothing(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		holdtest.AClientsClockDecidesNothing(t, func(t *testing.T) lease.Store { return leasepg.New(open(t, "pgx", dsn, "", "")) })
	})
}
