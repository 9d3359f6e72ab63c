package testserver_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/sqlfence/sqlfence/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachPostgreSQLIsEmptyAndWritable(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		conn, err := pgx.Connect(context.Background(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "CREATE TABLE t (a int)"); err != nil {
			t.Fatal(err)
		}
	})
}
