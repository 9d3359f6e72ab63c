package postgres_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// CASES D8, D9 and D10, see [holdtest.Outages].
func TestOutages(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		holdtest.Outages(t, func(t *testing.T) (lease.Store, *testserver.Proxy) {
			proxy, through := testserver.NewProxyDSN(t, dsn)
			return leasepg.New(open(t, "pgx", through, "", "")), proxy
		})
	})
}
