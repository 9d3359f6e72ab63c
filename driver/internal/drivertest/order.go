package drivertest

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// deadlock reports whether the server says that err is one.
func deadlock(err error) bool {
	return guard.SQLState(err) == "40P01" || guard.ServerNumber(err) == 1213
}

// retried runs a transaction again for as long as the server calls its snapshot too
// old, a serialization failure (SPEC G1), as MariaDB does from 11.6 on.
func retried(run func() error) error {
	for {
		if err := run(); guard.ServerNumber(err) != 1020 {
			return err
		}
	}
}

// LockOrder: CASES D31. Whoever takes the fence before the data never deadlocks with a
// guarded write: a takeover in a transaction that also writes, by Advance first, and
// a transaction that locks rows before it writes, by driver.CheckAtBegin (with which
// atBegin opens the database of the world).
func LockOrder(t *testing.T, e Engine, atBegin func(*testing.T, *World) *sql.DB, rounds int) {
	w := NewWorld(t, e)
	careful := atBegin(t, w)
	fenced := 0
	for round := range rounds {
		old, next := Current, Current
		old.Epoch, next.Epoch = Current.Epoch+int64(round), Current.Epoch+int64(round)+1
		old.Grant, next.Grant = Current.Grant+int64(round), Current.Grant+int64(round)+1
		start := make(chan struct{})
		var all sync.WaitGroup
		var mu sync.Mutex
		report := func(who string, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, guard.ErrFenced):
				fenced++
			case err != nil:
				t.Errorf("round %d: %s: %v", round, who, err)
			}
		}
		all.Go(func() {
			<-start
			err := retried(func() error {
				tx, err := w.Bare.BeginTx(t.Context(), nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				if err := guard.NewFence(tx, e.Engine).Advance(t.Context(), next); err != nil {
					return err
				}
				if _, err := tx.Exec(`UPDATE d SET v = 'new', n = 0`); err != nil {
					return err
				}
				return tx.Commit()
			})
			if errors.Is(err, guard.ErrFenced) {
				err = fmt.Errorf("the new owner: %v", err)
			}
			report("the new owner", err)
		})
		all.Go(func() {
			<-start
			report("the old owner, in autocommit", retried(func() error {
				return second(w.Fenced.ExecContext(w.With(old), `UPDATE d SET n = n + 1 WHERE id > 1`))
			}))
		})
		all.Go(func() {
			<-start
			report("the old owner, in a transaction", retried(func() error {
				tx, err := careful.BeginTx(w.With(old), nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				reads := `SELECT count(*) FROM d WHERE id = 2`
				if e.Engine != sqlgen.SQLite {
					reads = `SELECT id FROM d WHERE id = 2 FOR UPDATE`
				}
				if err := tx.QueryRow(reads).Scan(new(int)); err != nil {
					return err
				}
				if _, err := tx.Exec(`UPDATE d SET n = n + 1 WHERE id = 2`); err != nil {
					return err
				}
				return tx.Commit()
			}))
		})
		close(start)
		all.Wait()
		if got := w.Table(); got != "1 new 0|2 new 0|3 new 0" {
			t.Fatalf("round %d: the table reads %q: an old write has landed", round, got)
		}
	}
	t.Logf("%d rounds, %d writes of an old owner refused", rounds, fenced)
}

// WrongOrder is the control of LockOrder: who writes data before the fence deadlocks
// with a guarded transaction, and that is told as a deadlock and not as a refusal.
func WrongOrder(t *testing.T, e Engine, waiting func(*testing.T, *sql.DB)) {
	w := NewWorld(t, e)
	next := Current
	next.Epoch++
	old := w.Begin(w.With(Current), w.Fenced)
	w.Must(old, `UPDATE d SET v = 'old' WHERE id = 2`)
	taking := w.Begin(t.Context(), w.Bare)
	w.Must(taking, `UPDATE d SET v = 'new' WHERE id = 1`)
	advanced := make(chan error, 1)
	go func() {
		err := guard.NewFence(taking, e.Engine).Advance(t.Context(), next)
		if err != nil {
			_ = taking.Rollback()
		}
		advanced <- err
	}()
	waiting(t, w.Bare)
	_, err := old.Exec(`UPDATE d SET v = 'old' WHERE id = 1`)
	if err != nil {
		_ = old.Rollback() // the other one waits for it
	}
	moved := <-advanced
	if deadlock(err) == deadlock(moved) || errors.Is(err, guard.ErrFenced) || errors.Is(moved, guard.ErrFenced) || err != nil && moved != nil {
		t.Errorf("the old owner: %v; the new one: %v: want one deadlock and one success", err, moved)
	}
	_ = old.Rollback()
	_ = taking.Rollback()
}
