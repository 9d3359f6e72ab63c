package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// waiting is an acquire that waits for a guarded transaction.
type waiting struct {
	db     *sql.DB
	watch  *fencetest.DB
	holder *fencetest.Session
	first  lease.Granted
	done   chan error
	cancel context.CancelFunc
}

// newWaiting starts, through a database at dsn, an acquire of the resource r that
// waits for a guarded transaction of its former owner.
func newWaiting(t *testing.T, dsn, through string, setting, value string) *waiting {
	t.Helper()
	w := &waiting{db: open(t, "pgx", dsn, "", ""), watch: fencetest.Attach(t, dsn), done: make(chan error, 1)}
	w.first = mustAcquire(t, leasepg.New(w.db), "r", "A")
	w.holder = w.watch.Session(`SET application_name = 'the holder'`)
	w.holder.Must(`BEGIN`)
	w.holder.Must(`SELECT sqlfence.pass($1, $2, $3)`, "r", w.first.Token.Epoch, w.first.Token.Grant)
	w.watch.Lapse("r")

	client, err := sql.Open("pgx", with(t, through, setting, value))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w.cancel = cancel
	go func() {
		_, err := leasepg.New(client).Acquire(ctx, request("r", "B"))
		w.done <- err
	}()
	w.watch.UntilWaiting(1, "sqlfence.acquire")
	return w
}

// untilNobodyAcquires waits until the server works on no acquire any more.
func (w *waiting) untilNobodyAcquires(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		var n int
		w.watch.Watch(`SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND datname = current_database()
			AND strpos(query, 'sqlfence.acquire') > 0 AND pid <> pg_backend_pid()`, nil, &n)
		if n == 0 {
			return
		}
	}
	t.Fatal("the server still works on an acquire")
}

// mustBeLapsed fails unless the acquire has had no effect.
func (w *waiting) mustBeLapsed(t *testing.T) {
	t.Helper()
	state, err := leasepg.New(w.db).Inspect(t.Context(), "r")
	if err != nil || state.Status != lease.Lapsed || state.Owner != "A" || state.Epoch != w.first.Token.Epoch || state.HighWater != w.first.Token.Epoch {
		t.Errorf("after an acquire that was given up: %+v, %v; want lapsed, as before", state, err)
	}
}

// An acquire whose caller gives up returns at once and never takes effect.
func TestAnAcquireThatIsGivenUpNeverTakesEffect(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		w := newWaiting(t, dsn, dsn, "", "")
		start := time.Now()
		w.cancel()
		err := <-w.done
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the acquire that was given up: %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it returned after %v", took)
		}
		w.holder.Must(`COMMIT`)
		w.untilNobodyAcquires(t)
		w.mustBeLapsed(t)
	})
}

// The same where it is the connection that is lost. (That it is so also where no
// cancel reaches the server is shown in internal/fencetest.)
func TestAnAcquireWhoseConnectionIsLostNeverTakesEffect(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		proxy, through := testserver.NewProxyDSN(t, dsn)
		w := newWaiting(t, dsn, through, "default_query_exec_mode", "exec")
		proxy.Cut()
		proxy.Restore()
		if err := <-w.done; err == nil || strings.Contains(err.Error(), "could not be withdrawn") {
			t.Errorf("the acquire whose connection was lost: %v", err)
		}
		w.holder.Must(`COMMIT`)
		w.untilNobodyAcquires(t)
		w.mustBeLapsed(t)
		mustAcquire(t, leasepg.New(w.db), "r", "C")
	})
}

// The same behind a pooler, which tells of what it has lost by an error with a SQLSTATE.
func TestAnAcquireThatAPoolerLosesNeverTakesEffect(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		proxy, through := testserver.NewProxyDSN(t, dsn)
		w := newWaiting(t, dsn, testserver.PgBouncer(t, through), "default_query_exec_mode", "exec")
		proxy.Cut()
		proxy.Restore()
		if err := <-w.done; guard.SQLState(err) != "08P01" || strings.Contains(err.Error(), "withdrawn") {
			t.Errorf("the acquire whose connection the pooler has lost: %v", err)
		}
		w.holder.Must(`COMMIT`)
		w.untilNobodyAcquires(t)
		w.mustBeLapsed(t)
		mustAcquire(t, leasepg.New(w.db), "r", "C")
	})
}

// The same where the server cannot be reached any more: the error says what that
// may lead to.
func TestAnAcquireThatCannotBeWithdrawnSaysSo(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		proxy, through := testserver.NewProxyDSN(t, dsn)
		w := newWaiting(t, dsn, through, "default_query_exec_mode", "exec")
		proxy.Cut()
		w.cancel()
		start := time.Now()
		err := <-w.done
		if err == nil || !strings.Contains(err.Error(), "withdrawn") || !strings.Contains(err.Error(), `"B"`) {
			t.Errorf("the acquire that cannot be withdrawn: %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it returned after %v", took)
		}
		w.holder.Must(`COMMIT`)
		w.untilNobodyAcquires(t)
	})
}

// A grant whose answer is lost is released.
func TestAGrantWhoseAnswerIsLostIsReleased(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		proxy, through := testserver.NewProxyDSN(t, dsn)
		w := newWaiting(t, dsn, through, "default_query_exec_mode", "exec")
		proxy.Delay(time.Hour)
		w.holder.Must(`COMMIT`)
		w.untilNobodyAcquires(t)
		state, err := leasepg.New(w.db).Inspect(t.Context(), "r")
		if err != nil || state.Status != lease.Held || state.Owner != "B" {
			t.Fatalf("after the acquire: %+v, %v; want it held, or the test is about nothing", state, err)
		}
		proxy.Delay(0)
		proxy.Cut()
		proxy.Restore()
		if err := <-w.done; err == nil || strings.Contains(err.Error(), "could not be withdrawn") {
			t.Errorf("the acquire whose answer was lost: %v", err)
		}
		state, err = leasepg.New(w.db).Inspect(t.Context(), "r")
		if err != nil || state.Status != lease.Free {
			t.Errorf("afterwards: %+v, %v; want it free", state, err)
		}
	})
}

// A spent wait names who holds the fence, and a deadline of the context's is such
// a bound, too; what was there before is untouched.
func TestASpentWaitNamesItsBlockers(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		w := newWaiting(t, dsn, dsn, "", "")
		w.cancel()
		if err := <-w.done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		s := leasepg.New(w.db)
		for _, wait := range []time.Duration{0, time.Nanosecond, 100 * time.Millisecond, 1<<63 - 1} {
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			req := request("r", "B")
			req.Wait = wait
			start := time.Now()
			_, err := s.Acquire(ctx, req)
			took := time.Since(start)
			cancel()
			var blocked *lease.BlockedError
			if !errors.Is(err, lease.ErrBlocked) || !errors.Is(err, lease.ErrTimeout) || !errors.As(err, &blocked) {
				t.Errorf("acquire with a wait of %v: %v", wait, err)
				continue
			}
			if took > 6500*time.Millisecond {
				t.Errorf("acquire with a wait of %v took %v", wait, took)
			}
			if len(blocked.Blockers) != 1 || blocked.Blockers[0].PID != int64(w.holder.PID) || blocked.Blockers[0].Application != "the holder" || blocked.Blockers[0].Age <= 0 {
				t.Errorf("blockers: %+v, want the one holder, pid %d", blocked.Blockers, w.holder.PID)
			}
		}
		w.mustBeLapsed(t)

		// A release waits for the owner's own guarded transactions.
		own := mustAcquire(t, s, "own", "A")
		w.holder.Must(`SELECT sqlfence.pass($1, $2, $3)`, "own", own.Token.Epoch, own.Token.Grant)
		if err := s.Release(t.Context(), claim(own, "A"), 50*time.Millisecond); !errors.Is(err, lease.ErrBlocked) {
			t.Errorf("release behind an open guarded transaction: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Release(t.Context(), claim(own, "A"), 20*time.Second) }()
		w.watch.UntilWaiting(1, "sqlfence.release")
		w.holder.Must(`COMMIT`)
		if err := <-done; err != nil {
			t.Errorf("release, once the guarded transaction has ended: %v", err)
		}
	})
}

// An acquire with a context that has ended is not sent, and one that finds no
// server says only that.
func TestAnAcquireThatIsNotSentIsNotWithdrawn(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := leasepg.New(db).Acquire(ctx, request("r", "A")); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire with an ended context: %v", err)
		}
		proxy, through := testserver.NewProxyDSN(t, dsn)
		proxy.Cut()
		cut, err := sql.Open("pgx", through)
		if err != nil {
			t.Fatal(err)
		}
		defer cut.Close()
		if _, err := leasepg.New(cut).Acquire(t.Context(), request("r", "A")); err == nil || strings.Contains(err.Error(), "withdrawn") {
			t.Errorf("acquire without a server: %v", err)
		}
		// The pool is empty and stays so: the deadline ends it.
		db.SetMaxOpenConns(1)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := leasepg.New(db).Acquire(ctx, request("r", "A")); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "withdrawn") {
			t.Errorf("acquire without a free connection: %v", err)
		}
		if took := time.Since(start); took > 400*time.Millisecond {
			t.Errorf("it returned after %v", took)
		}
		// On that connection itself it works.
		mustAcquire(t, leasepg.New(conn), "r", "A")
	})
}
