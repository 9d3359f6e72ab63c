package postgres_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
)

func TestEightProcessesNeverGetOneTokenTwice(t *testing.T) { // CASES D6 (b)
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		open(t, "pgx", dsn, "", "") // creates the schema
		holdtest.Contenders(t, dsn, 25)
	})
}
