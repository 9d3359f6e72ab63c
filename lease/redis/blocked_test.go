package redis_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// guarded is a database whose fence the leases of another store are for.
type guarded struct {
	engine sqlgen.Engine
	db     *sql.DB
}

func eachGuarded(t *testing.T, fn func(t *testing.T, g guarded)) {
	run := func(t *testing.T, engine sqlgen.Engine, driver, dsn string) {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := guard.Migrate(t.Context(), db, engine); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE d (v INT)"); err != nil {
			t.Fatal(err)
		}
		fn(t, guarded{engine, db})
	}
	t.Run("SQLite", func(t *testing.T) {
		run(t, sqlgen.SQLite, "sqlite", "file:"+testserver.SQLiteFile(t)+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	})
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) { run(t, sqlgen.PostgreSQL, "pgx", dsn) })
	testserver.EachMySQL(t, func(t *testing.T, dsn string) { run(t, sqlgen.MySQL, "mysql", dsn) })
}

// begin opens a guarded transaction.
func (g guarded) begin(t *testing.T, token guard.Token) *sql.Tx {
	t.Helper()
	tx, err := g.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO d VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if err := guard.NewFence(tx, g.engine).Check(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	return tx
}

// A takeover that an open guarded transaction blocks in the fence's database behaves
// like one that is blocked in the lease's own: it ends in time, says by whom it was
// blocked, leaves the resource to others, and does not take effect later.
func TestATakeoverThatIsBlockedElsewhereIsBoundedAndNamed(t *testing.T) {
	eachGuarded(t, func(t *testing.T, g guarded) {
		t.Run("memory", func(t *testing.T) {
			var ahead atomic.Int64
			store := memory.New(memory.Clock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
			blockedElsewhere(t, g, store, func() { ahead.Add(int64(2 * time.Hour)) })
		})
		testserver.EachRedis(t, func(t *testing.T, url string) {
			client := open(t, url)
			store := leaseredis.New(client)
			defer store.Close()
			blockedElsewhere(t, g, store, func() { lapse(t, client, store, t.Name()) })
		})
	})
}

func blockedElsewhere(t *testing.T, g guarded, store lease.Store, lapses func()) {
	fence := guard.NewFence(g.db, g.engine)
	resource := t.Name()
	newManager := func(owner string) *lease.Manager {
		t.Helper()
		m, err := lease.NewManager(store, lease.Owner(owner), lease.TTL(time.Hour), lease.WithFence(fence))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	status := func() lease.Status {
		t.Helper()
		s, err := store.Inspect(context.Background(), resource)
		if err != nil {
			t.Fatal(err)
		}
		return s.Status
	}
	a, b := newManager("A"), newManager("B")
	old, err := a.TryAcquire(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	tx := g.begin(t, old.Token())
	defer func() { _ = tx.Rollback() }()
	lapses()

	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		_, err := b.TryAcquire(t.Context(), resource, lease.Wait(wait))
		var blocked *lease.BlockedError
		if !errors.As(err, &blocked) || !errors.Is(err, lease.ErrBlocked) {
			t.Fatalf("with a wait of %v: %v, want a *lease.BlockedError", wait, err)
		}
		named := g.engine == sqlgen.PostgreSQL || g.engine == sqlgen.MySQL && wait > 0
		if named && (len(blocked.Blockers) != 1 || blocked.Blockers[0].PID == 0) {
			t.Errorf("with a wait of %v the blockers are %v", wait, blocked.Blockers)
		}
		if s := status(); s != lease.Free {
			t.Errorf("after a wait of %v the resource is %v, want it given back", wait, s)
		}
	}

	// Who gives up.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := b.TryAcquire(ctx, resource, lease.Wait(time.Minute))
		done <- err
	}()
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	until("the store grants nothing", func() bool { return status() == lease.Held })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up: %v", err)
	}
	until("the grant of who gave up is not given back", func() bool { return status() == lease.Free })

	if err := tx.Commit(); err != nil {
		t.Errorf("the guarded transaction: %v", err)
	}
	if mark, err := fence.HighWater(t.Context(), resource); err != nil || mark != old.Token().Epoch {
		t.Errorf("after it the mark is %d (%v), want %d as before", mark, err, old.Token().Epoch)
	}
	next, err := b.TryAcquire(t.Context(), resource)
	if err != nil {
		t.Fatalf("when nothing is in the way: %v", err)
	}
	if err := fence.Check(t.Context(), old.Token()); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("the former token: %v", err)
	}
	if err := fence.Check(t.Context(), next.Token()); err != nil {
		t.Errorf("the token: %v", err)
	}
}
