package sqlite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
)

// Transactions that read have all others. CASES D11, see [holdtest.ExhaustedPool].
func TestRenewalsSurviveAnExhaustedPool(t *testing.T) {
	db, _ := open(t)
	holdtest.ExhaustedPool(t, leasesqlite.New(db), db)
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

// CASES D11, see [holdtest.PoolOfOne].
func TestAPoolOfOneConnectionSaysWhatIsWrong(t *testing.T) {
	db, _ := open(t)
	holdtest.PoolOfOne(t, leasesqlite.New(db), db)
}
