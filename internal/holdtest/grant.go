package holdtest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// Waits is a server on which an acquire waits for guarded transactions of the former
// owner.
type Waits struct {
	DB *sql.DB
	// On returns the store in a transaction.
	On func(tx *sql.Tx) lease.Store
	// Clock asks for the server's clock, in microseconds since 1970.
	Clock string
	// Guard opens a guarded transaction under the token, and returns its end.
	Guard func(token guard.Token) (commit func())
	// UntilWaiting returns when the server says that an acquire waits.
	UntilWaiting func()
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (w Waits) clock(t *testing.T, q rowQuerier) time.Time {
	t.Helper()
	var now int64
	if err := q.QueryRowContext(t.Context(), w.Clock).Scan(&now); err != nil {
		t.Fatal(err)
	}
	return time.UnixMicro(now)
}

// TTLCountsFromTheGrant checks CASES D13: it counts by the clock and not from the start of
// the statement or of the transaction, however long the acquire waited.
func TTLCountsFromTheGrant(t *testing.T, store lease.Store, w Waits) {
	t.Helper()
	ask := func(resource string, ttl time.Duration) lease.AcquireRequest {
		return lease.AcquireRequest{Resource: resource, Owner: "A", TTL: ttl, Wait: patience}
	}

	// After a wait for an open guarded transaction.
	first, err := store.Acquire(t.Context(), ask("r", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	commit := w.Guard(first.Token)
	type result struct {
		granted lease.Granted
		err     error
	}
	done := make(chan result, 1)
	req := ask("r", 2*time.Second)
	go func() {
		g, err := store.Acquire(t.Context(), req)
		done <- result{g, err}
	}()
	w.UntilWaiting()
	freed := w.clock(t, w.DB)
	commit()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	if got.granted.Expiry.Before(freed.Add(req.TTL)) || got.granted.TTL != req.TTL {
		t.Errorf("granted until %v after a wait that ended at %v, TTL %v", got.granted.Expiry, freed, got.granted.TTL)
	}

	// In a transaction of the caller's that is older.
	tx, err := w.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has nothing to keep
	before := w.clock(t, tx)
	g, err := w.On(tx).Acquire(t.Context(), ask("r2", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if g.Expiry.Before(before.Add(time.Minute)) {
		t.Errorf("granted until %v in a transaction where it was %v before", g.Expiry, before)
	}
}
