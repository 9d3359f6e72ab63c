package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestEightProcessesNeverGetOneTokenTwice(t *testing.T) { // CASES D6 (b)
	_, file := open(t)
	holdtest.Contenders(t, file, acquires)
}

func TestABoundedWaitForTheLockEnds(t *testing.T) {
	db, file := open(t)
	s := leasesqlite.New(db)
	g := mustAcquire(t, s, request("held", "a"))
	claim := lease.Claim{Token: g.Token, Owner: "a", TTL: time.Minute}
	unlock := lockFile(t, file)
	before := row(t, db, "job") + row(t, db, "held")

	for _, wait := range []time.Duration{0, 200 * time.Millisecond} {
		req := request("job", "a")
		req.Wait = wait
		operations := map[string]func() error{
			"acquire": func() error { _, err := s.Acquire(t.Context(), req); return err },
			"release": func() error { return s.Release(t.Context(), claim, wait) },
			"acquire, context": func() error {
				long := req
				long.Wait = time.Minute
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				_, err := s.Acquire(ctx, long)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("expected the context's error, saw %v", err)
				}
				if wait == 0 {
					return &lease.BlockedError{} // it did not get as far as the lock
				}
				return err
			},
			"renew, context": func() error {
				ctx, cancel := context.WithTimeout(t.Context(), max(wait, 50*time.Millisecond))
				defer cancel()
				_, err := s.Renew(ctx, []lease.Claim{claim})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("expected the context's error, saw %v", err)
				}
				return err
			},
		}
		for name, operation := range operations {
			start := time.Now()
			err := operation()
			if took := time.Since(start); took > wait+500*time.Millisecond {
				t.Errorf("%s: expected an end after %v, saw it after %v", name, wait, took)
			}
			if !errors.Is(err, lease.ErrBlocked) || !errors.Is(err, lease.ErrTimeout) {
				t.Errorf("%s: expected ErrBlocked, saw %v", name, err)
			}
		}
	}
	unlock()
	if after := row(t, db, "job") + row(t, db, "held"); after != before {
		t.Errorf("expected nothing to take effect later: %s, saw %s", before, after)
	}
	mustAcquire(t, s, request("job", "b"))
}

func TestAnAcquireThatIsWaitingGoesOnWhenTheLockIsFree(t *testing.T) {
	db, file := open(t)
	unlock := lockFile(t, file)
	done := make(chan error)
	go func() {
		_, err := leasesqlite.New(db).Acquire(context.WithoutCancel(t.Context()), request("job", "a"))
		done <- err
	}()
	letPass(t, openFile(t, file, walAndTimeout), 50*time.Millisecond)
	unlock()
	if err := <-done; err != nil {
		t.Errorf("expected the lease, saw %v", err)
	}
}

func TestAWaitThatSomebodyElseWinsIsADenial(t *testing.T) {
	db, file := open(t)
	writer, err := openFile(t, file, walAndTimeout).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	mustExec(t, writer, "BEGIN IMMEDIATE")
	done := make(chan error)
	go func() {
		_, err := leasesqlite.New(db).Acquire(context.WithoutCancel(t.Context()), request("job", "a"))
		done <- err
	}()
	mustExec(t, writer, "INSERT INTO main.sqlfence_leases VALUES ('job', 'b', 1, 1, 4102444800000)")
	mustExec(t, writer, "COMMIT")
	var held *lease.HeldError
	if err := <-done; !errors.As(err, &held) || held.Holder != "b" {
		t.Errorf("expected a denial that names b, saw %v", err)
	}
}

func TestAFullPoolEndsWithTheBound(t *testing.T) { // CASES D11
	db, _ := open(t)
	db.SetMaxOpenConns(1)
	s := leasesqlite.New(db)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has been rolled back at the end

	req := request("job", "a")
	req.Wait = 100 * time.Millisecond
	if _, err := s.Acquire(t.Context(), req); !errors.Is(err, lease.ErrBlocked) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("bound: expected ErrBlocked and no context's error, saw %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Acquire(ctx, request("job", "a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("context: expected its error, saw %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, s, request("job", "a"))
}

func TestNoSettingOutlivesAnOperation(t *testing.T) { // SPEC G12
	file := testserver.SQLiteFile(t)
	db := openFile(t, file, "?_pragma=busy_timeout(4321)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	db.SetMaxOpenConns(1)
	if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	s := leasesqlite.New(db)
	settings := func() (timeout, level int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&timeout); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level); err != nil {
			t.Fatal(err)
		}
		return timeout, level
	}
	mustAcquire(t, s, request("job", "a"))
	if timeout, level := settings(); timeout != 4321 || level != 1 {
		t.Errorf("after an acquire: expected 4321 and 1, saw %d and %d", timeout, level)
	}
	if _, err := s.Acquire(t.Context(), request("job", "b")); !errors.Is(err, lease.ErrNotAcquirable) {
		t.Error(err)
	}
	unlock := lockFile(t, file)
	req := request("other", "a")
	req.Wait = 10 * time.Millisecond
	if _, err := s.Acquire(t.Context(), req); !errors.Is(err, lease.ErrBlocked) {
		t.Error(err)
	}
	unlock()
	if timeout, level := settings(); timeout != 4321 || level != 1 {
		t.Errorf("after refusals: expected 4321 and 1, saw %d and %d", timeout, level)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, leasesqlite.New(tx), request("third", "a"))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if timeout, level := settings(); timeout != 4321 || level != 1 {
		t.Errorf("after a transaction: expected 4321 and 1, saw %d and %d", timeout, level)
	}
}

func TestOutsideWALModeACommitWaitsForReaders(t *testing.T) {
	file := testserver.SQLiteFile(t)
	db := openFile(t, file, "?_pragma=journal_mode(DELETE)")
	if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	s := leasesqlite.New(db)
	reader, err := openFile(t, file, "").BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback() //nolint:errcheck // it has been rolled back at the end
	before := row(t, reader, "job")

	req := request("job", "a")
	req.Wait = 50 * time.Millisecond
	if _, err := s.Acquire(t.Context(), req); !errors.Is(err, lease.ErrBlocked) {
		t.Errorf("expected ErrBlocked, saw %v", err)
	}
	if after := row(t, db, "job"); after != before {
		t.Errorf("expected nothing to be granted, saw %s", after)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	if g := mustAcquire(t, s, request("job", "a")); g.Token.Epoch != 1 {
		t.Errorf("expected epoch 1, saw %d", g.Token.Epoch)
	}
}

func TestWhoGaveUpGetsNothing(t *testing.T) {
	db, _ := open(t)
	s := leasesqlite.New(db)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Acquire(ctx, request("job", "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("expected context.Canceled, saw %v", err)
	}

	// At random moments of the operation: either it tells of the grant, or
	// there is none.
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*5*time.Microsecond)
		resource := fmt.Sprint("job-", i)
		_, err := s.Acquire(ctx, request(resource, "a"))
		cancel()
		state, inspectErr := s.Inspect(t.Context(), resource)
		if inspectErr != nil {
			t.Fatal(inspectErr)
		}
		if granted := err == nil; granted != (state.Status == lease.Held) || granted != (state.HighWater == 1) {
			t.Fatalf("cut off after %v: told %v, found %+v", time.Duration(i)*5*time.Microsecond, err, state)
		}
	}
	if open := db.Stats().InUse; open != 0 {
		t.Errorf("expected every connection back in the pool, saw %d in use", open)
	}
}
