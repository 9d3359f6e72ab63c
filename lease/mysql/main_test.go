package mysql_test

import (
	"database/sql"
	"testing"

	"go.uber.org/goleak"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

func TestMain(m *testing.M) {
	holdtest.Contend(func(dsn string) (lease.Store, error) {
		db, err := sql.Open("mysql", dsn)
		return leasemysql.New(db), err
	})
	leak.Main(m, goleak.IgnoreTopFunction("os/exec.(*Cmd).Wait"))
}
