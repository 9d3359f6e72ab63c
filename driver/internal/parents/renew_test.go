package parents

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// More leases than go into one statement, with a loss among them.
func TestMattnManyRenewals(t *testing.T) {
	dsn := "file:" + testserver.SQLiteFile(t) + pragmas
	bare := open(t, "sqlite3", dsn)
	if err := guard.Migrate(t.Context(), bare, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	tx, err := bare.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	claims := make([]lease.Claim, 1200)
	for i := range claims {
		g, err := leasesqlite.New(tx).Acquire(t.Context(), lease.AcquireRequest{Resource: fmt.Sprint("r", i), Owner: "a", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		claims[i] = lease.Claim{Token: g.Token, Owner: "a", TTL: 2 * time.Hour}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	claims[1100].Owner = "b"
	for _, name := range []string{"sqlite3", "sqlfence-mattn"} {
		renewed, err := leasesqlite.New(open(t, name, dsn)).Renew(t.Context(), claims)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, r := range renewed {
			if i == 1100 != errors.Is(r.Err, lease.ErrNotOwner) || i != 1100 && r.Err != nil {
				t.Errorf("%s, claim %d: %v", name, i, r.Err)
			}
		}
	}
}
