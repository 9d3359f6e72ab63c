package mysql_test

import (
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// CASES D15, see [holdtest.LateRenewal].
func TestALateRenewalChangesNothing(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		direct := open(t, dsn, nil)
		config, err := gomysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		proxy := testserver.NewProxy(t, config.Addr)
		config.Addr = proxy.Addr()
		config.InterpolateParams = true // else what is sent first only prepares the statement
		through := open(t, config.FormatDSN(), nil)
		holdtest.LateRenewal(t, proxy, leasemysql.New(through), leasemysql.New(direct))
	})
}

// See [holdtest.LateAcquire].
func TestAnAcquireThatArrivesLateIsNotGranted(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		direct := open(t, dsn, nil)
		config, err := gomysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		proxy := testserver.NewProxy(t, config.Addr)
		config.Addr = proxy.Addr()
		config.InterpolateParams = true // else what is sent first only prepares the statement
		through := open(t, config.FormatDSN(), nil)
		holdtest.LateAcquire(t, proxy, leasemysql.New(through), leasemysql.New(direct))
	})
}
