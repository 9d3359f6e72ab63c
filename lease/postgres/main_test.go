package postgres_test

import (
	"database/sql"
	"testing"

	"go.uber.org/goleak"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

func TestMain(m *testing.M) {
	holdtest.Contend(func(dsn string) (lease.Store, error) {
		db, err := sql.Open("pgx", dsn)
		return leasepg.New(db), err
	})
	leak.Main(m, goleak.IgnoreTopFunction("os/exec.(*Cmd).Wait"))
}
