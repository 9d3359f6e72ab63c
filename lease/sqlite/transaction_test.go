package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
)

func TestInACallersTransactionTheTokenCountsFromTheCommit(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		mustExec(t, db, "CREATE TABLE d (v TEXT)")
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // after the commit it does nothing
		g := mustAcquire(t, leasesqlite.New(tx), request("job", "a"))
		mustExec(t, tx, "INSERT INTO d VALUES ('with the lease')")
		if err := check(t, tx, g.Token); err != nil {
			t.Errorf("inside: expected the token to pass, saw %v", err)
		}
		if err := check(t, db, g.Token); !errors.Is(err, guard.ErrUnregistered) {
			t.Errorf("outside, before the commit: expected ErrUnregistered, saw %v", err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := check(t, db, g.Token); err != nil {
			t.Errorf("after the commit: expected the token to pass, saw %v", err)
		}
	})
}

func TestARolledBackGrantIsNeverTakenForTheNextOne(t *testing.T) { // SPEC G13
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		lost := mustAcquire(t, leasesqlite.New(tx), request("job", "a"))
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := check(t, db, lost.Token); !errors.Is(err, guard.ErrUnregistered) {
			t.Errorf("before the next grant: expected ErrUnregistered, saw %v", err)
		}
		next := mustAcquire(t, leasesqlite.New(db), request("job", "b"))
		if next.Token.Epoch != lost.Token.Epoch {
			t.Fatalf("the case needs the same epoch twice, saw %d and %d", lost.Token.Epoch, next.Token.Epoch)
		}
		if err := check(t, db, lost.Token); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("expected the rolled-back token to be fenced, saw %v", err)
		}
		renewed, err := leasesqlite.New(db).Renew(t.Context(), []lease.Claim{{Token: lost.Token, Owner: "b", TTL: time.Minute}})
		if err != nil || !errors.Is(renewed[0].Err, lease.ErrEpochMismatch) {
			t.Errorf("expected ErrEpochMismatch, saw %v, %v", err, renewed)
		}
		if err := check(t, db, next.Token); err != nil {
			t.Errorf("expected the committed token to pass, saw %v", err)
		}
	})
}

func TestATransactionThatReadBeforeAnotherWroteIsRefused(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, file string) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // it is rolled back whatever happened
		before := row(t, tx, "job")
		won := mustAcquire(t, leasesqlite.New(openFile(t, file, walAndTimeout)), request("job", "b"))
		g, err := leasesqlite.New(tx).Acquire(t.Context(), request("job", "a"))
		if err == nil || errors.Is(err, lease.ErrBlocked) {
			t.Fatalf("from a snapshot with %q: expected a refusal for good, saw %v, %v", before, g, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := check(t, db, won.Token); err != nil {
			t.Errorf("expected the winner's token to pass, saw %v", err)
		}
	})
}

func TestTheWaitInACallersTransactionIsBounded(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, file string) {
		unlock := lockFile(t, file)
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // after the commit it does nothing
		s := leasesqlite.New(tx)
		req := request("job", "a")
		req.Wait = 100 * time.Millisecond
		start := time.Now()
		if _, err := s.Acquire(t.Context(), req); !errors.Is(err, lease.ErrBlocked) {
			t.Errorf("bound: expected ErrBlocked, saw %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := s.Acquire(ctx, request("job", "a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("context: expected its error, saw %v", err)
		}
		if took := time.Since(start); took > 700*time.Millisecond {
			t.Errorf("expected both to end after 200ms, saw %v", took)
		}
		unlock()
		mustAcquire(t, s, request("job", "a")) // the transaction is still whole
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLeaseAndMarkMoveTogetherOrNotAtAll(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		g := mustAcquire(t, leasesqlite.New(db), request("held", "a"))
		claim := lease.Claim{Token: g.Token, Owner: "a", TTL: time.Minute}
		before := row(t, db, "job") + row(t, db, "held")
		for _, when := range []string{"INSERT", "UPDATE"} {
			mustExec(t, db, "CREATE TRIGGER fail_"+when+" BEFORE "+when+
				" ON sqlfence_fences BEGIN SELECT RAISE(ABORT, 'the mark cannot move'); END")
		}
		if _, err := leasesqlite.New(db).Acquire(t.Context(), request("job", "a")); err == nil {
			t.Error("acquire: expected an error")
		}
		if err := leasesqlite.New(db).Release(t.Context(), claim, 0); err == nil {
			t.Error("release: expected an error")
		}

		// A caller who swallows the error and commits gets nothing either.
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // after the commit it does nothing
		if _, err := leasesqlite.New(tx).Acquire(t.Context(), request("job", "a")); err == nil {
			t.Error("acquire in a transaction: expected an error")
		}
		if err := leasesqlite.New(tx).Release(t.Context(), claim, 0); err == nil {
			t.Error("release in a transaction: expected an error")
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if after := row(t, db, "job") + row(t, db, "held"); after != before {
			t.Errorf("expected the rows untouched, %s, saw %s", before, after)
		}
	})
}
