package mysql_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// kill -9, with the default settings of the log, which throwaway servers do not have.
func TestConformanceAcrossRestarts(t *testing.T) {
	testserver.EachPrivateMySQL(t, conformAcrossRestarts, "innodb-flush-log-at-trx-commit=1")
}

func conformAcrossRestarts(t *testing.T, server *testserver.Private) {
	db := open(t, server.Database(t), nil)
	leasetest.RunRestart(t, leasetest.Config{
		New:   func(testing.TB) lease.Store { return leasemysql.New(db) },
		Lapse: func(t testing.TB, _ lease.Store, resource string) { lapse(t, db, resource) },
		Restart: func(t testing.TB, s lease.Store) lease.Store {
			server.Kill(t)
			server.Start(t)
			db.SetMaxIdleConns(0) // connections to the server that was killed
			db.SetMaxIdleConns(10)
			return s
		},
	})
}
