package postgres_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

func TestTokensAreCheckedAtBegin(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		db := like(t, w, nil, fence.CheckAtBegin())
		db.SetMaxOpenConns(1)
		for range 2 {
			_, err := db.BeginTx(w.With(drivertest.Stale), nil)
			w.Want("BeginTx with a stale token", err, guard.ErrFenced)
			_, err = db.BeginTx(w.With(drivertest.Unknown), nil)
			w.Want("BeginTx with an unknown token", err, guard.ErrUnregistered)
			tx := w.Begin(w.With(drivertest.Current), db)
			// The fence is held already: a takeover waits.
			var held int
			w.Want("locks", w.Bare.QueryRow(`SELECT count(*) FROM sqlfence.blockers($1)`, drivertest.Current.Resource).Scan(&held), nil)
			if held != 1 {
				t.Errorf("%d sessions hold the fence, want 1", held)
			}
			w.Must(tx, `UPDATE d SET v = v`)
			w.Want("Commit", tx.Commit(), nil)
			tx = w.Begin(t.Context(), db)
			w.Want("Commit without a token", tx.Commit(), nil)
			for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
				tx, err := db.BeginTx(w.With(drivertest.Current), &sql.TxOptions{Isolation: level, ReadOnly: true})
				w.Want("a read-only transaction, "+level.String(), err, nil)
				w.Must(tx, `SELECT * FROM d`)
				w.Want("its end", tx.Commit(), nil)
			}
			uncommitted := w.Conn(w.Fenced)
			w.Must(uncommitted, `BEGIN ISOLATION LEVEL READ UNCOMMITTED READ ONLY`)
			w.Want("Check", guard.NewFence(uncommitted, w.Engine.Engine).Check(t.Context(), drivertest.Current), nil)
			w.Want("Check, stale", guard.NewFence(uncommitted, w.Engine.Engine).Check(t.Context(), drivertest.Stale), guard.ErrFenced)
			w.Must(uncommitted, `ROLLBACK`)
		}
	})
}

const bounds = `SELECT current_setting('idle_in_transaction_session_timeout') || ' ' || current_setting('tcp_user_timeout') || ' ' ||
	coalesce(current_setting('transaction_timeout', true), '-')`

// SPEC G3: a client that stalls in a guarded transaction is ended by the server;
// and nothing of the bounds is left behind (SPEC G12).
func TestTransactionsAreBoundedOnTheServer(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		db := like(t, w, nil, fence.BoundTransactions(fence.Bounds{Idle: 300 * time.Millisecond, Total: time.Minute, Unresponsive: 20 * time.Second}))
		db.SetMaxOpenConns(1)
		var before string
		w.Want("before", db.QueryRow(bounds).Scan(&before), nil)
		set := func(tx interface{ Scan(...any) error }) {
			t.Helper()
			var got string
			w.Want("settings", tx.Scan(&got), nil)
			if !strings.HasPrefix(got, "300ms 20000 ") || !strings.HasSuffix(got, " -") && !strings.HasSuffix(got, " 1min") {
				t.Errorf("the settings read %q", got)
			}
		}
		tx := w.Begin(w.With(drivertest.Current), db)
		set(tx.QueryRow(bounds))
		w.Want("Commit", tx.Commit(), nil)

		tx = w.Begin(t.Context(), db)
		w.Must(tx, `SAVEPOINT a`)
		_, err := tx.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
		w.Want("the first guarded write", err, nil)
		set(tx.QueryRow(bounds))
		w.Must(tx, `ROLLBACK TO a`)
		_, err = tx.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
		w.Want("the next one", err, nil)
		set(tx.QueryRow(bounds))
		w.Want("Commit", tx.Commit(), nil)

		var after string
		w.Want("after", db.QueryRow(bounds).Scan(&after), nil)
		if after != before {
			t.Errorf("the settings read %q, before %q", after, before)
		}

		// The client stalls; the takeover goes on when its session has ended.
		tx = w.Begin(w.With(drivertest.Current), db)
		w.Must(tx, `UPDATE d SET v = 'stalled'`)
		start := time.Now()
		w.Want("Advance", guard.NewFence(w.Bare, w.Engine.Engine).Advance(t.Context(), drivertest.Unknown), nil)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("the takeover took %s", d)
		}
		_, err = tx.Exec(`UPDATE d SET v = 'late'`)
		var server *pgconn.PgError
		if err == nil || errors.Is(err, guard.ErrFenced) || errors.As(err, &server) && server.Code != "25P03" {
			t.Errorf("the stalled transaction: %v", err)
		}
		_ = tx.Rollback()
		w.IsUntouched()
	})
}

func TestBoundsThatNoServerTakes(t *testing.T) {
	for _, b := range []fence.Bounds{{Idle: -1}, {Total: time.Microsecond}, {Unresponsive: 1000 * time.Hour}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v: no panic", b)
				}
			}()
			fence.WrapConnector(nil, 1, fence.BoundTransactions(b))
		}()
	}
}

func TestTextsThatEndARefusedTransaction(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) { drivertest.EndARefusedTransaction(t, w) })
}
