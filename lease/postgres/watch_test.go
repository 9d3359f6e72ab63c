package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/lease/postgres/pgxlisten"
)

func manager(t *testing.T, store lease.Store, opts ...lease.Option) *lease.Manager {
	t.Helper()
	m, err := lease.NewManager(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func listening(t *testing.T, db *sql.DB, dsn string) *leasepg.Store {
	t.Helper()
	s := leasepg.New(db, leasepg.Notifications(pgxlisten.New(dsn)))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// attempts counts the acquires of a store.
type attempts struct {
	*leasepg.Store
	n atomic.Int64
}

func (a *attempts) Acquire(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	a.n.Add(1)
	return a.Store.Acquire(ctx, req)
}

// wakes returns a wake that leaves a value.
func wakes(woken chan<- struct{}) func() {
	return func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}

// until waits for a condition that another process brings about.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAReleaseElsewhereWakesAWaiterAtOnce(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		db.SetMaxOpenConns(10)
		db.SetMaxIdleConns(10)
		holder := manager(t, leasepg.New(db), lease.TTL(time.Hour))
		store := &attempts{Store: listening(t, db, dsn)}
		m := manager(t, store, lease.TTL(time.Hour), lease.OnReentry(lease.ReentryRefuse))
		const rounds, waiting = 2, 100
		for round := range rounds {
			resource := fmt.Sprint("r", round)
			held, err := holder.TryAcquire(t.Context(), resource)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var end sync.WaitGroup
			got := make(chan time.Time, waiting)
			for range waiting {
				end.Go(func() {
					if _, err := m.Acquire(ctx, resource); err == nil {
						got <- time.Now()
					} else if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
			until(t, "all wait", func() bool { return store.n.Load() >= waiting })
			woken := make(chan struct{}, 1)
			live, stop := store.Watch(resource, wakes(woken))
			for !live() {
				<-woken
			}
			stop()
			until(t, "the attempts have ended", quiet(&store.n))
			store.n.Store(0)
			start := time.Now()
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := (<-got).Sub(start); took > time.Second {
				t.Errorf("the first waiter got it after %v", took)
			}
			until(t, "the attempts have ended", quiet(&store.n))
			if n := store.n.Load(); n > 4 {
				t.Errorf("a release woke %d attempts of %d waiters, expected 4 at most", n, waiting)
			}
			cancel()
			end.Wait()
			store.n.Store(0)
		}
	})
}

// quiet reports true when nothing was counted for a while.
func quiet(n *atomic.Int64) func() bool {
	last, since := n.Load(), time.Now()
	return func() bool {
		if now := n.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 50*time.Millisecond
	}
}

func TestNobodyIsNotifiedWhereNobodyWaits(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		s := leasepg.New(open(t, "pgx", dsn, "", ""))
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), "LISTEN sqlfence_released"); err != nil {
			t.Fatal(err)
		}
		cycle := func(resource string) {
			t.Helper()
			if err := s.Release(t.Context(), claim(mustAcquire(t, s, resource, "A"), "A"), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		cycle("unwatched")
		if _, err := conn.Exec(t.Context(), "SELECT sqlfence.watch('watched')"); err != nil {
			t.Fatal(err)
		}
		cycle("unwatched")
		cycle("watched")
		n, err := conn.WaitForNotification(t.Context())
		if err != nil || n.Payload != "watched" {
			t.Errorf("notified of %+v, %v; expected only the resource that is watched", n, err)
		}
		if _, err := conn.Exec(t.Context(), "SELECT sqlfence.unwatch('watched')"); err != nil {
			t.Fatal(err)
		}
		cycle("watched")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if n, err := conn.WaitForNotification(ctx); err == nil {
			t.Errorf("notified of %+v after the watch had ended", n)
		}
	})
}

// The listener's connection breaks: waiters poll meanwhile, and learn of what they
// missed when it is back.
func TestABrokenListenerIsReplaced(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		proxy, through := testserver.NewProxyDSN(t, dsn)
		s := listening(t, db, through)
		woken := make(chan struct{}, 1)
		live, stop := s.Watch("r", wakes(woken))
		defer stop()
		for !live() {
			<-woken
		}
		proxy.Cut()
		for live() {
			<-woken // whoever waits polls from now on
		}
		proxy.Restore()
		for !live() {
			<-woken // and looks for what was missed
		}
	})
}

func TestAHolderIsAskedToStepDown(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		m := manager(t, listening(t, db, dsn), lease.TTL(time.Hour), lease.OnStepDown(func(l *lease.Lease) {
			if err := l.Release(context.Background()); err != nil {
				t.Error(err)
			}
		}))
		l, err := m.TryAcquire(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		ctx := l.KeepAlive(t.Context())
		other := manager(t, leasepg.New(db))
		until(t, "the holder has stepped down", func() bool {
			// Until the holder listens, requests arrive nowhere.
			if err := other.AskToStepDown(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
			return ctx.Err() != nil
		})
		if _, err := other.Acquire(t.Context(), "r"); err != nil {
			t.Error(err)
		}
	})
}

// Three clients vanish with guarded transactions open: the takeover ends the
// sessions that hold the fence after the grace, and no others.
func TestVanishedClientsAreEvicted(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		watch := fencetest.Attach(t, dsn)
		first := mustAcquire(t, leasepg.New(db), "r", "A")
		for range 3 {
			s := watch.Session()
			s.Must(`BEGIN`)
			s.Must(`SELECT sqlfence.pass($1, $2, $3)`, "r", first.Token.Epoch, first.Token.Grant)
		}
		// Neither who holds another fence, nor who waits for a row, is in the way.
		other := mustAcquire(t, leasepg.New(db), "other", "A")
		bystander := watch.Session()
		bystander.Must(`BEGIN`)
		bystander.Must(`SELECT sqlfence.pass($1, $2, $3)`, "other", other.Token.Epoch, other.Token.Grant)
		idle := watch.Session()
		idle.Must(`BEGIN`)
		watch.Lapse("r")

		told := make(chan []lease.Blocker, 10)
		m := manager(t, leasepg.New(db), lease.EvictAfter(300*time.Millisecond), lease.WithHooks(lease.Hooks{
			Evicted: func(_ string, sessions []lease.Blocker, err error) {
				if err != nil {
					t.Error(err)
				}
				told <- sessions
			},
		}))
		start := time.Now()
		l, err := m.TryAcquire(t.Context(), "r", lease.Wait(10*time.Second))
		took := time.Since(start)
		if err != nil {
			t.Fatal(err)
		}
		if took < 300*time.Millisecond || took > 2*time.Second {
			t.Errorf("the takeover took %v, expected a little more than the grace", took)
		}
		var evicted []lease.Blocker
		for len(evicted) < 3 { // the hook may be called after the takeover
			select {
			case sessions := <-told:
				evicted = append(evicted, sessions...)
				continue
			case <-time.After(20 * time.Second):
			}
			break
		}
		if len(evicted) != 3 {
			t.Errorf("evicted %+v, expected three", evicted)
		}
		if l.Token().Epoch <= first.Token.Epoch {
			t.Errorf("token %v after %v", l.Token(), first.Token)
		}
		bystander.Must(`SELECT sqlfence.pass($1, $2, $3)`, "other", other.Token.Epoch, other.Token.Grant)
		bystander.Must(`COMMIT`)
		idle.Must(`COMMIT`)
	})
}

func TestNobodyIsEvictedForAHeldLeaseOrTooEarly(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		watch := fencetest.Attach(t, dsn)
		s := leasepg.New(db)
		g := mustAcquire(t, s, "r", "A")
		holder := watch.Session()
		holder.Must(`BEGIN`)
		holder.Must(`SELECT sqlfence.pass($1, $2, $3)`, "r", g.Token.Epoch, g.Token.Grant)
		if ended, err := s.Evict(t.Context(), "r", "B", 0); err != nil || len(ended) != 0 {
			t.Errorf("for a lease that is held: %+v, %v", ended, err)
		}
		watch.Lapse("r")
		if ended, err := s.Evict(t.Context(), "r", "B", time.Hour); err != nil || len(ended) != 0 {
			t.Errorf("before the grace has passed: %+v, %v", ended, err)
		}
		if ended, err := s.Evict(t.Context(), "r", "B", -1); !errors.Is(err, lease.ErrInvalidInput) {
			t.Errorf("with a negative grace: %+v, %v", ended, err)
		}
		holder.Must(`COMMIT`)
	})
}

// A prepared transaction is not ended, but named, and the bound holds.
func TestAPreparedTransactionIsNamed(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		watch := fencetest.Attach(t, dsn)
		g := mustAcquire(t, leasepg.New(db), "r", "A")
		holder := watch.Session()
		holder.Must(`BEGIN`)
		holder.Must(`SELECT sqlfence.pass($1, $2, $3)`, "r", g.Token.Epoch, g.Token.Grant)
		holder.Must(`PREPARE TRANSACTION 'left behind'`)
		watch.Lapse("r")
		m := manager(t, leasepg.New(db), lease.EvictAfter(50*time.Millisecond))
		start := time.Now()
		_, err := m.TryAcquire(t.Context(), "r", lease.Wait(500*time.Millisecond))
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v, expected the bound, 500ms, and at most 500ms more", took)
		}
		var blocked *lease.BlockedError
		if !errors.As(err, &blocked) || len(blocked.Blockers) != 1 || blocked.Blockers[0].Prepared != "left behind" {
			t.Errorf("the takeover: %v, expected it to name the prepared transaction", err)
		}
	})
}
