package sqlite_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
)

// Readers take every connection that the pool has over, for longer than the TTL.
func TestRenewalsSurviveAnExhaustedPool(t *testing.T) { // CASES D11
	db, _ := open(t)
	db.SetMaxOpenConns(3)
	const ttl = 1500 * time.Millisecond
	m, err := lease.NewManager(leasesqlite.New(db), lease.TTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	l, err := m.TryAcquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	kept := l.KeepAlive(t.Context())
	for range 2 {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // it has only read
		row(t, tx, "job")
	}
	if stats := db.Stats(); stats.InUse != 3 {
		t.Fatalf("%d connections are in use, expected all 3, or the test is about nothing", stats.InUse)
	}
	for first := l.Expiry(); l.Expiry().Sub(first) <= ttl; {
		select {
		case <-kept.Done():
			t.Fatalf("the lease was lost: %v", context.Cause(kept))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestTheReserveIsGivenBackAndReplaced(t *testing.T) { // CASES D11
	db, file := open(t)
	db.SetMaxOpenConns(2)
	s := leasesqlite.New(db)
	g := mustAcquire(t, s, request("job", "a"))
	claims := []lease.Claim{{Token: g.Token, Owner: "a", TTL: time.Minute}}
	reserve := s.Reserve(t.Context())
	if stats := db.Stats(); stats.InUse != 1 {
		t.Errorf("%d connections are in use, expected the reserve alone", stats.InUse)
	}
	unlock := lockFile(t, file)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := reserve.Renew(ctx, claims); !errors.Is(err, lease.ErrBlocked) {
		t.Errorf("a renewal behind a writer: expected ErrBlocked, saw %v", err)
	}
	unlock()
	if renewed, err := reserve.Renew(t.Context(), claims); err != nil || renewed[0].Err != nil {
		t.Errorf("a renewal after the writer: %v, %v", err, renewed)
	}
	reserve.Close()
	reserve.Close()
	if stats := db.Stats(); stats.InUse != 0 {
		t.Errorf("%d connections are in use after the reserve was given back", stats.InUse)
	}
	for _, limit := range []int{0, 1} {
		db.SetMaxOpenConns(limit)
		if s.Reserve(t.Context()) != nil {
			t.Errorf("a pool with a limit of %d keeps a reserve", limit)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has done nothing
	if leasesqlite.New(tx).Reserve(t.Context()) != nil {
		t.Error("a transaction keeps a reserve")
	}
}

// A pool of one connection that a transaction has: nothing hangs, and the errors say
// what is wrong.
func TestAPoolOfOneConnectionSaysWhatIsWrong(t *testing.T) { // CASES D11
	db, _ := open(t)
	db.SetMaxOpenConns(1)
	m, err := lease.NewManager(leasesqlite.New(db), lease.TTL(600*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = m.Hold(t.Context(), "job", func(ctx context.Context) error {
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
}
