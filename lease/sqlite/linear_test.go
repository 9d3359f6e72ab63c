package sqlite_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/linear"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
)

func TestOperationsAreLinearizable(t *testing.T) {
	db, file := open(t)
	direct := openFile(t, file, walAndTimeout)
	linear.Check(t, linear.Config{
		Store: leasesqlite.New(db),
		Lapse: func(t testing.TB, resource string) {
			t.Helper()
			mustExec(t, direct, "UPDATE main.sqlfence_leases SET expires_at = 1 WHERE resource = ?1 AND owner IS NOT NULL", resource)
		},
		Histories: 15,
	})
}
