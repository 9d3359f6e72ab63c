package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// inFenceLock is part of the statement that waits for the fence.
const inFenceLock = "INTO o_mark"

func request(resource, owner string) lease.AcquireRequest {
	return lease.AcquireRequest{Resource: resource, Owner: owner, TTL: time.Minute, Wait: 20 * time.Second}
}

func mustAcquire(t *testing.T, s *leasemysql.Store, resource, owner string) lease.Granted {
	t.Helper()
	g, err := s.Acquire(t.Context(), request(resource, owner))
	if err != nil {
		t.Fatalf("acquire of %q by %q: %v", resource, owner, err)
	}
	return g
}

func claim(g lease.Granted, owner string) lease.Claim {
	return lease.Claim{Token: g.Token, Owner: owner, TTL: time.Minute}
}

// hold begins a guarded transaction, and writes in it: MariaDB then tells it from
// others.
func hold(t *testing.T, s *fencetest.MySQLSession, token guard.Token) {
	t.Helper()
	s.Must("CREATE TABLE IF NOT EXISTS held (a INT) ENGINE = InnoDB")
	s.Must("BEGIN")
	s.Must("INSERT INTO held VALUES (1)")
	if err := guard.NewFence(s.Conn(), sqlgen.MySQL).Check(t.Context(), token); err != nil {
		t.Fatal(err)
	}
}

// waiting is an acquire that waits for a guarded transaction.
type waiting struct {
	d      *fencetest.MySQL
	holder *fencetest.MySQLSession
	client *sql.DB // whose acquire waits
	first  lease.Granted
	done   chan error
	cancel context.CancelFunc
}

// newWaiting starts, through a database at dsn, an acquire of the resource r that
// waits for a guarded transaction of its former owner.
func newWaiting(t *testing.T, dsn, through string) *waiting {
	t.Helper()
	w := &waiting{d: fencetest.OpenMySQL(t, dsn), client: open(t, through, nil), done: make(chan error, 1)}
	w.holder = w.d.Session()
	w.first = mustAcquire(t, leasemysql.New(w.d.DB), "r", "A")
	hold(t, w.holder, w.first.Token)
	w.d.Lapse("r")
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w.cancel = cancel
	store := leasemysql.New(w.client)
	go func() {
		_, err := store.Acquire(ctx, request("r", "B"))
		w.done <- err
	}()
	w.d.UntilWaiting(1, inFenceLock)
	return w
}

// giveUp ends the acquire.
func (w *waiting) giveUp(t *testing.T) {
	t.Helper()
	w.cancel()
	if err := <-w.done; !errors.Is(err, context.Canceled) {
		t.Fatalf("the acquire that was given up: %v", err)
	}
}

// mustBeLapsed fails unless the acquire has had no effect.
func (w *waiting) mustBeLapsed(t *testing.T) {
	t.Helper()
	state, err := leasemysql.New(w.d.DB).Inspect(t.Context(), "r")
	if err != nil || state.Status != lease.Lapsed || state.Owner != "A" || state.Epoch != w.first.Token.Epoch || state.HighWater != w.first.Token.Epoch {
		t.Errorf("after an acquire that was given up: %+v, %v; want lapsed, as before", state, err)
	}
}

// through returns a proxy and the data source name that leads through it.
func proxied(t *testing.T, dsn string) (*testserver.Proxy, string) {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testserver.NewProxy(t, config.Addr)
	config.Addr = proxy.Addr()
	return proxy, config.FormatDSN()
}

// An acquire whose caller gives up returns at once and never takes effect: the
// server is told to stop, and does not wait any more.
func TestAnAcquireThatIsGivenUpNeverTakesEffect(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		w := newWaiting(t, dsn, dsn)
		start := time.Now()
		w.cancel()
		if err := <-w.done; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "withdrawn") {
			t.Errorf("the acquire that was given up: %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it returned after %v", took)
		}
		w.d.UntilWaiting(0, inFenceLock)
		w.holder.Must("COMMIT")
		w.mustBeLapsed(t)
	})
}

// The control: the context alone, which the driver answers by closing the
// connection, leaves a server waiting that then grants the lease to nobody.
func TestAContextAloneWouldLetTheAcquireTakeEffectLater(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := fencetest.OpenMySQL(t, dsn)
		first := mustAcquire(t, leasemysql.New(d.DB), "r", "A")
		holder := d.Session()
		hold(t, holder, first.Token)
		d.Lapse("r")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := d.DB.ExecContext(ctx, fencetest.MySQLAcquire, "r", "B")
			done <- err
		}()
		d.UntilWaiting(1, inFenceLock)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		holder.Must("COMMIT")
		d.UntilWaiting(0, inFenceLock)
		for deadline := time.Now().Add(30 * time.Second); ; {
			state, err := leasemysql.New(d.DB).Inspect(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			if state.Status == lease.Held && state.Owner == "B" {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v: the acquire did not take effect: nothing would have to be withdrawn", state)
			}
		}
	})
}

// The same where it is the connection that is lost.
func TestAnAcquireWhoseConnectionIsLostNeverTakesEffect(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		proxy, through := proxied(t, dsn)
		w := newWaiting(t, dsn, through)
		proxy.Cut()
		proxy.Restore()
		if err := <-w.done; err == nil || strings.Contains(err.Error(), "could not be withdrawn") {
			t.Errorf("the acquire whose connection was lost: %v", err)
		}
		w.d.UntilWaiting(0, inFenceLock)
		w.holder.Must("COMMIT")
		w.mustBeLapsed(t)
		mustAcquire(t, leasemysql.New(w.d.DB), "r", "C")
	})
}

// The same where the server cannot be reached any more: the error says what that
// may lead to.
func TestAnAcquireThatCannotBeWithdrawnSaysSo(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		proxy, through := proxied(t, dsn)
		w := newWaiting(t, dsn, through)
		proxy.Cut()
		w.cancel()
		start := time.Now()
		if err := <-w.done; err == nil || !strings.Contains(err.Error(), "withdrawn") || !strings.Contains(err.Error(), `"B"`) {
			t.Errorf("the acquire that cannot be withdrawn: %v", err)
		}
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Errorf("it returned after %v", took)
		}
	})
}

// A grant whose answer is lost is released.
func TestAGrantWhoseAnswerIsLostIsReleased(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		proxy, through := proxied(t, dsn)
		w := newWaiting(t, dsn, through)
		proxy.Delay(time.Hour)
		w.holder.Must("COMMIT")
		s := leasemysql.New(w.d.DB)
		for deadline := time.Now().Add(30 * time.Second); ; {
			state, err := s.Inspect(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			if state.Owner == "B" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after the acquire: %+v; want it held, or the test is about nothing", state)
			}
		}
		proxy.Delay(0)
		proxy.Cut()
		proxy.Restore()
		if err := <-w.done; err == nil || strings.Contains(err.Error(), "could not be withdrawn") {
			t.Errorf("the acquire whose answer was lost: %v", err)
		}
		if state, err := s.Inspect(t.Context(), "r"); err != nil || state.Status != lease.Free {
			t.Errorf("afterwards: %+v, %v; want it free", state, err)
		}
	})
}

// A spent wait ends when it should, though the server counts seconds, and names who
// holds the fence; a deadline of the context's is such a bound, too.
func TestASpentWaitNamesItsBlockers(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		w := newWaiting(t, dsn, dsn)
		w.giveUp(t)
		s := leasemysql.New(w.d.DB)
		for _, wait := range []time.Duration{0, 300 * time.Millisecond, 1<<63 - 1} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
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
			if took < min(wait, 1500*time.Millisecond) || took > min(wait, 2*time.Second)+500*time.Millisecond {
				t.Errorf("acquire with a wait of %v took %v", wait, took)
			}
			if wait > 0 && (len(blocked.Blockers) != 1 || blocked.Blockers[0].PID != w.holder.ID || blocked.Blockers[0].Age <= 0 ||
				!strings.HasPrefix(blocked.Blockers[0].Application, "root@")) {
				t.Errorf("blockers: %+v, want the one holder, connection %d", blocked.Blockers, w.holder.ID)
			}
		}
		w.mustBeLapsed(t)

		// A release waits for the owner's own guarded transactions.
		own := mustAcquire(t, s, "own", "A")
		if err := guard.NewFence(w.holder.Conn(), sqlgen.MySQL).Check(t.Context(), own.Token); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), claim(own, "A"), 50*time.Millisecond); !errors.Is(err, lease.ErrBlocked) {
			t.Errorf("release behind an open guarded transaction: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Release(t.Context(), claim(own, "A"), 20*time.Second) }()
		w.d.UntilWaiting(1, inFenceLock)
		w.holder.Must("COMMIT")
		if err := <-done; err != nil {
			t.Errorf("release, once the guarded transaction has ended: %v", err)
		}
	})
}

// D11: with one connection there is none to tell the server by, but the bound holds
// all the same, and nothing takes effect later.
func TestAPoolOfOneConnectionIsEnough(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		w := newWaiting(t, dsn, dsn)
		w.giveUp(t)
		w.client.SetMaxOpenConns(1)
		req := request("r", "B")
		req.Wait = 100 * time.Millisecond
		start := time.Now()
		if _, err := leasemysql.New(w.client).Acquire(t.Context(), req); !errors.Is(err, lease.ErrBlocked) || strings.Contains(err.Error(), "withdrawn") {
			t.Errorf("acquire: %v", err)
		}
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		w.d.UntilWaiting(0, inFenceLock)
		w.holder.Must("COMMIT")
		w.mustBeLapsed(t)
	})
}

// Evict ends those that hold the fence, and nobody who only waits for it.
func TestEvictEndsTheHolders(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		w := newWaiting(t, dsn, dsn)
		w.giveUp(t)
		s := leasemysql.New(w.client)
		go func() {
			_, err := s.Acquire(t.Context(), request("r", "B"))
			w.done <- err
		}()
		w.d.UntilWaiting(1, inFenceLock)
		late := w.d.Session()
		late.Must("BEGIN")
		late.Start("SELECT 1 FROM sqlfence_guard WHERE resource = 'r' AND at = CURRENT_TIMESTAMP(6) LOCK IN SHARE MODE")
		late.MustBlock()
		if ended, err := s.Evict(t.Context(), "r", "B", time.Hour); err != nil || len(ended) != 0 {
			t.Errorf("evict of those older than an hour: %v, %v; want none", ended, err)
		}
		ended, err := s.Evict(t.Context(), "r", "B", 0)
		if err != nil || len(ended) != 1 || ended[0].PID != w.holder.ID {
			t.Errorf("evict: %v, %v; want the holder, connection %d", ended, err, w.holder.ID)
		}
		if err := <-w.done; err != nil {
			t.Errorf("the acquire: %v", err)
		}
		if _, err := late.Wait(); err != nil {
			t.Errorf("the session that only waited: %v", err)
		}
		late.Must("COMMIT")
	})
}

// MariaDB has one number for all transactions that have not written yet. Where two
// of them are open, nobody is named, and nobody is ended.
func TestWhoCannotBeToldFromOthersIsNotEnded(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		w := newWaiting(t, dsn, dsn)
		w.giveUp(t)
		w.holder.Must("COMMIT")
		innocent := w.d.Session("CREATE TABLE d (a INT PRIMARY KEY) ENGINE = InnoDB", "INSERT INTO d VALUES (1)")
		for _, s := range []*fencetest.MySQLSession{innocent, w.holder} {
			s.Must("BEGIN")
			s.Must("SELECT a FROM d LOCK IN SHARE MODE")
		}
		if err := guard.NewFence(w.holder.Conn(), sqlgen.MySQL).Check(t.Context(), w.first.Token); err != nil {
			t.Fatal(err)
		}
		s := leasemysql.New(w.client)
		go func() {
			_, err := s.Acquire(t.Context(), request("r", "B"))
			w.done <- err
		}()
		w.d.UntilWaiting(1, inFenceLock)
		ended, err := s.Evict(t.Context(), "r", "B", 0)
		if err != nil {
			t.Error(err)
		}
		for _, b := range ended {
			if b.PID != w.holder.ID {
				t.Errorf("connection %d was ended, the holder is %d", b.PID, w.holder.ID)
			}
		}
		innocent.Must("COMMIT")
		if len(ended) == 0 {
			w.holder.Must("COMMIT")
		}
		if err := <-w.done; err != nil {
			t.Errorf("the acquire: %v", err)
		}
	})
}
