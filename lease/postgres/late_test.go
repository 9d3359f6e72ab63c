package postgres_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// CASES D15, see [holdtest.LateRenewal].
func TestALateRenewalChangesNothing(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		direct := open(t, "pgx", dsn, "", "")
		proxy, dsn := testserver.NewProxyDSN(t, dsn)
		through := open(t, "pgx", dsn, "", "")
		holdtest.LateRenewal(t, proxy, leasepg.New(through), leasepg.New(direct))
	})
}

// See [holdtest.LateAcquire].
func TestAnAcquireThatArrivesLateIsNotGranted(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		direct := open(t, "pgx", dsn, "", "")
		proxy, dsn := testserver.NewProxyDSN(t, dsn)
		through := open(t, "pgx", dsn, "", "")
		holdtest.LateAcquire(t, proxy, leasepg.New(through), leasepg.New(direct))
	})
}
