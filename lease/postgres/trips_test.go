package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

func TestEachOperationIsOneRoundTrip(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		proxy, dsn := testserver.NewProxyDSN(t, dsn)
		db := open(t, "pgx", dsn, "", "")
		db.SetMaxOpenConns(1)
		s := leasepg.New(db)
		many := make([]lease.Claim, 1000)
		warm := claim(mustAcquire(t, s, "warm", "a"), "a")
		for i := range many {
			many[i] = warm
		}
		for round := range 2 { // in the first, statements are prepared
			expect := func(what string, op func() error, want error) {
				t.Helper()
				before := proxy.Turns()
				if err := op(); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
				if n := proxy.Turns() - before; n != 1 && round > 0 {
					t.Errorf("%s: %d round trips, want 1", what, n)
				}
			}
			var g lease.Granted
			renew := func(claims ...lease.Claim) error {
				renewed, err := s.Renew(t.Context(), claims)
				if err == nil {
					err = renewed[len(renewed)-1].Err
				}
				return err
			}
			expect("acquire", func() (err error) { g, err = s.Acquire(t.Context(), request("job", "a")); return err }, nil)
			expect("denied acquire", func() error { _, err := s.Acquire(t.Context(), request("job", "b")); return err }, lease.ErrNotAcquirable)
			expect("renew", func() error { return renew(claim(g, "a")) }, nil)
			expect("renew of 1000", func() error { return renew(many...) }, nil)
			expect("refused renew", func() error { return renew(claim(g, "b")) }, lease.ErrNotOwner)
			expect("inspect", func() error { _, err := s.Inspect(t.Context(), "job"); return err }, nil)
			expect("release", func() error { return s.Release(t.Context(), claim(g, "a"), time.Second) }, nil)
		}
	})
}
