package mysql_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
)

func TestEightProcessesNeverGetOneTokenTwice(t *testing.T) { // CASES D6 (b)
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		open(t, dsn, nil) // creates the schema
		holdtest.Contenders(t, dsn, 25)
	})
}
