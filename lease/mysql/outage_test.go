package mysql_test

import (
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// CASES D8, D9 and D10, see [holdtest.Outages].
func TestOutages(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		holdtest.Outages(t, func(t *testing.T) (lease.Store, *testserver.Proxy) {
			config, err := gomysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			proxy := testserver.NewProxy(t, config.Addr)
			config.Addr = proxy.Addr()
			return leasemysql.New(open(t, config.FormatDSN(), nil)), proxy
		})
	})
}
