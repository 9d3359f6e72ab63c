package postgres_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// CASES D10, see [holdtest.Outages].
func TestOutages(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		holdtest.Outages(t, func(t *testing.T) holdtest.Line {
			proxy, through := testserver.NewProxyDSN(t, dsn)
			return holdtest.Line{Store: leasepg.New(open(t, "pgx", through, "", "")), Cut: proxy.Cut, Restore: proxy.Restore}
		})
	})
}
