package mysql_test

import (
	"errors"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// What is not to wait does not, not even for the second that the server's setting has
// at least: it says SF007, and nothing has come to be 1205.
func TestWhatIsNotToWaitWaitsForNoLock(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := fencetest.OpenMySQL(t, dsn)
		s := leasemysql.New(d.DB)
		g := mustAcquire(t, s, "r", "A")
		other := d.Session()
		for _, table := range []string{"sqlfence_fences", "sqlfence_leases"} {
			other.Must("BEGIN")
			other.Must("SELECT 1 FROM " + table + " WHERE resource = 'r' FOR UPDATE")
			errs := map[string]error{
				"release": s.Release(t.Context(), claim(g, "A"), 0),
				"advance": guard.NewFence(d.DB, sqlgen.MySQL).AdvanceWithin(t.Context(), guard.Token{Resource: "r", Epoch: 99}, 0),
			}
			for what, err := range errs {
				var blocked *lease.BlockedError
				if !errors.As(err, &blocked) || fencetest.Number(blocked.Err) != 1644 {
					t.Errorf("%s, while a row of %s is locked: %v, want SF007", what, table, err)
				}
			}
			other.Must("ROLLBACK")
		}
	})
}
