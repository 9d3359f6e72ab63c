package mysql_test

import (
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// CASES D10, see [holdtest.Outages].
func TestOutages(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		holdtest.Outages(t, func(t *testing.T) holdtest.Line {
			config, err := gomysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			proxy := testserver.NewProxy(t, config.Addr)
			config.Addr = proxy.Addr()
			return holdtest.Line{Store: leasemysql.New(open(t, config.FormatDSN(), nil)), Cut: proxy.Cut, Restore: proxy.Restore}
		})
	})
}
