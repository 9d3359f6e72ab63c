package postgres_test

import (
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// CASES D11, see [holdtest.ExhaustedPool].
func TestRenewalsSurviveAnExhaustedPool(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		holdtest.ExhaustedPool(t, leasepg.New(db), db)
	})
}

func TestTheReserveIsGivenBackAndReplaced(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		db.SetMaxOpenConns(2)
		s := leasepg.New(db)
		g := mustAcquire(t, s, "r", "A")
		reserve := s.Reserve(t.Context())
		if stats := db.Stats(); stats.InUse != 1 {
			t.Errorf("%d connections are in use, expected the reserve alone", stats.InUse)
		}
		for round := range 2 {
			renew := func() error {
				renewed, err := reserve.Renew(t.Context(), []lease.Claim{claim(g, "A")})
				if err != nil {
					return err
				}
				return renewed[0].Err
			}
			if err := renew(); err != nil { // the first tells of the end of its session, if it was ended
				if err := renew(); err != nil {
					t.Errorf("a renewal: %v", err)
				}
			}
			if round == 1 {
				break
			}
			if _, err := db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
				// PostgreSQL 13 does not wait.
				if _, err := db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
					t.Fatal(err)
				}
			}
		}
		reserve.Close()
		reserve.Close()
		if stats := db.Stats(); stats.InUse != 0 {
			t.Errorf("%d connections are in use after the reserve was given back", stats.InUse)
		}

		m := manager(t, s, lease.TTL(time.Hour))
		l, err := m.TryAcquire(t.Context(), "managed")
		if err != nil {
			t.Fatal(err)
		}
		l.KeepAlive(t.Context())
		if stats := db.Stats(); stats.InUse != 1 {
			t.Errorf("%d connections are in use by a manager, expected its reserve", stats.InUse)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		until(t, "the reserve is given back", func() bool { return db.Stats().InUse == 0 })
		for _, unbounded := range []int{0, 1} {
			db.SetMaxOpenConns(unbounded)
			if s.Reserve(t.Context()) != nil {
				t.Errorf("a pool of %d connections keeps a reserve", unbounded)
			}
		}
	})
}

// CASES D11, see [holdtest.PoolOfOne].
func TestAPoolOfOneConnectionSaysWhatIsWrong(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		holdtest.PoolOfOne(t, leasepg.New(db), db)
	})
}
