package holdtest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// ExhaustedPool checks CASES D11: transactions that have every connection that the pool
// has over, for longer than the TTL, lose no lease of the store on it.
func ExhaustedPool(t *testing.T, store lease.Store, db *sql.DB) {
	t.Helper()
	db.SetMaxOpenConns(3)
	const ttl = 2 * time.Second
	l, kept, _ := keep(t, store, "job", ttl)
	for range 2 {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // it has only read
		if _, err := tx.ExecContext(t.Context(), `SELECT 1`); err != nil {
			t.Fatal(err)
		}
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

// PoolOfOne checks CASES D11: where a transaction has the pool's only connection, nothing
// hangs, and the errors say what is wrong.
func PoolOfOne(t *testing.T, store lease.Store, db *sql.DB) {
	t.Helper()
	db.SetMaxOpenConns(1)
	m := manager(t, store, lease.TTL(2*time.Second))
	var held context.Context
	err := m.Hold(t.Context(), "job", func(ctx context.Context) error {
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
}
