package sqlite_test

import (
	"database/sql"
	"testing"

	sqlitedriver "github.com/sqlfence/sqlfence/driver/sqlite"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name, driver, journal string
		rounds                int
	}{
		{"bare driver", "sqlite", "WAL", rounds},
		{"fenced driver", sqlitedriver.DriverName, "WAL", rounds},
		{"rollback journal", "sqlite", "MEMORY", rounds}, // locks as DELETE does, with one fsync instead of three
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, err := sql.Open(tt.driver, "file:"+testserver.SQLiteFile(t)+"?_pragma=busy_timeout(5000)&_pragma=journal_mode("+tt.journal+")")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
				t.Fatal(err)
			}
			leasetest.Run(t, leasetest.Config{
				New:   func(testing.TB) lease.Store { return leasesqlite.New(db) },
				Lapse: func(t testing.TB, _ lease.Store, resource string) { t.Helper(); expire(t, db, resource) },
				SetMark: func(t testing.TB, _ lease.Store, resource string, mark int64) {
					t.Helper()
					token := guard.Token{Resource: resource, Epoch: mark}
					if err := guard.NewFence(db, sqlgen.SQLite).Advance(t.Context(), token); err != nil {
						t.Fatal(err)
					}
				},
				Begin: func(t testing.TB, _ lease.Store) (in lease.Store, commit, rollback func() error) {
					t.Helper()
					tx, err := db.BeginTx(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					return leasesqlite.New(tx), tx.Commit, tx.Rollback
				},
				Rounds: tt.rounds,
			})
		})
	}
}

// A context that carries the token of another lease guards the writes of the
// program, and not those of the store.
func TestTheStoreIsNotGuardedByTheCallersToken(t *testing.T) {
	db, err := sql.Open(sqlitedriver.DriverName, "file:"+testserver.SQLiteFile(t)+walAndTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := guard.With(t.Context(), guard.Token{Resource: "other", Epoch: 1})
	if err := guard.Migrate(ctx, db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	s := leasesqlite.New(db)
	g, err := s.Acquire(ctx, request("job", "a"))
	if err != nil {
		t.Fatal(err)
	}
	claim := lease.Claim{Token: g.Token, Owner: "a", TTL: lease.MaxTTL}
	if renewed, err := s.Renew(ctx, []lease.Claim{claim}); err != nil || renewed[0].Err != nil {
		t.Errorf("renew: %v, %v", err, renewed)
	}
	if err := s.Release(ctx, claim, 0); err != nil {
		t.Errorf("release: %v", err)
	}
	f := guard.NewFence(db, sqlgen.SQLite)
	if err := f.Advance(ctx, guard.Token{Resource: "third", Epoch: 4}); err != nil {
		t.Errorf("advance: %v", err)
	}
	if err := guard.CheckSetup(ctx, db, sqlgen.SQLite); err != nil {
		t.Errorf("check of the set-up: %v", err)
	}
}
