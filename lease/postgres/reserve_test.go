package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

func TestRenewalsSurviveAnExhaustedPool(t *testing.T) { // CASES D11
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		db.SetMaxOpenConns(3)
		const ttl = 1500 * time.Millisecond
		m := manager(t, leasepg.New(db), lease.TTL(ttl))
		l, err := m.TryAcquire(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		kept := l.KeepAlive(t.Context())
		for range 2 {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // it has done nothing
			if _, err := tx.ExecContext(t.Context(), `SELECT 1`); err != nil {
				t.Fatal(err)
			}
		}
		if stats := db.Stats(); stats.InUse != 3 {
			t.Fatalf("%d connections are in use, expected all 3, or the test is about nothing", stats.InUse)
		}
		first := l.Expiry()
		until(t, "the lease has outlived its TTL", func() bool {
			return kept.Err() != nil || l.Expiry().Sub(first) > ttl
		})
		if kept.Err() != nil {
			t.Fatalf("the lease was lost: %v", context.Cause(kept))
		}
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

// A pool of one connection that a transaction has: nothing hangs, and the errors
// say what is wrong.
func TestAPoolOfOneConnectionSaysWhatIsWrong(t *testing.T) { // CASES D11
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		db.SetMaxOpenConns(1)
		m := manager(t, leasepg.New(db), lease.TTL(600*time.Millisecond))
		var held context.Context
		err := m.Hold(t.Context(), "r", func(ctx context.Context) error {
			held = ctx
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() //nolint:errcheck // it has done nothing
			bounded, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := m.TryAcquire(bounded, "other"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("another acquire: %v", err)
			}
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "all 1 are in use (SetMaxOpenConns)") {
			t.Errorf("Hold: %v, expected a loss that tells of the pool", err)
		}
		if held == nil || held.Err() == nil {
			t.Error("the context lives on")
		}
	})
}
