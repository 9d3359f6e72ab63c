package redis_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	pgdriver "github.com/sqlfence/sqlfence/driver/postgres"
	sqlitedriver "github.com/sqlfence/sqlfence/driver/sqlite"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// The lease is in Redis and the data in a SQL database: the mark there is advanced
// before the lease is handed out, and is the floor when Redis has lost all.
func TestLeasesInRedisFenceDataInSQL(t *testing.T) {
	data := map[string]func(t *testing.T) (*sql.DB, sqlgen.Engine){
		"PostgreSQL": func(t *testing.T) (*sql.DB, sqlgen.Engine) {
			db, err := sql.Open(pgdriver.DriverName, testserver.PostgreSQL(t)[0].Database(t))
			if err != nil {
				t.Fatal(err)
			}
			return db, sqlgen.PostgreSQL
		},
		"SQLite": func(t *testing.T) (*sql.DB, sqlgen.Engine) {
			db, err := sql.Open(sqlitedriver.DriverName, "file:"+testserver.SQLiteFile(t)+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
			if err != nil {
				t.Fatal(err)
			}
			return db, sqlgen.SQLite
		},
	}
	for name, open := range data {
		t.Run(name, func(t *testing.T) {
			db, engine := open(t)
			t.Cleanup(func() { _ = db.Close() })
			testserver.EachRedis(t, func(t *testing.T, url string) { elsewhere(t, url, db, engine) })
		})
	}
}

func elsewhere(t *testing.T, url string, db *sql.DB, engine sqlgen.Engine) {
	if err := guard.Migrate(t.Context(), db, engine); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"CREATE TABLE d (id INT PRIMARY KEY, v TEXT)", "INSERT INTO d VALUES (1, 'start')"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	client := open(t, url)
	store := leaseredis.New(client)
	fence := guard.NewFence(db, engine)
	newManager := func(owner string, opts ...lease.Option) *lease.Manager {
		t.Helper()
		m, err := lease.NewManager(store, append(opts, lease.Owner(owner), lease.TTL(time.Hour))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	write := func(l *lease.Lease, v string) error {
		_, err := db.ExecContext(guard.With(context.WithoutCancel(t.Context()), l.Token()), `UPDATE d SET v = $1 WHERE id = 1`, v)
		return err
	}
	acquire := func(m *lease.Manager) *lease.Lease {
		t.Helper()
		l, err := m.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}

	// The control: without the fence a grant of Redis is unknown to the data.
	strange := acquire(newManager("S"))
	if err := write(strange, "S"); !errors.Is(err, guard.ErrUnregistered) {
		t.Errorf("a token that was never advanced: %v", err)
	}
	lapse(t, client, store, "job")

	a, b := newManager("A", lease.WithFence(fence)), newManager("B", lease.WithFence(fence))
	old := acquire(a)
	if err := write(old, "A"); err != nil {
		t.Errorf("the holder's write: %v", err)
	}
	lapse(t, client, store, "job")
	current := acquire(b)
	if err := write(old, "stale"); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("the former holder's write: %v", err)
	}
	if err := write(current, "B"); err != nil {
		t.Errorf("the holder's write: %v", err)
	}

	// Redis forgets everything, several times.
	last := current
	for range 3 {
		if err := client.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		next := acquire(a)
		if next.Token().Epoch <= last.Token().Epoch {
			t.Errorf("epoch %d after %d, expected one above the mark", next.Token().Epoch, last.Token().Epoch)
		}
		if err := write(last, "stale"); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("the write of a holder that Redis has forgotten: %v", err)
		}
		if err := write(next, "A"); err != nil {
			t.Errorf("the holder's write: %v", err)
		}
		if err := last.Renew(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("renewal of a lease that Redis has forgotten: %v", err)
		}
		last = next
	}

	if err := last.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	if err := write(last, "stale"); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("a write after the release: %v", err)
	}
	var v string
	if err := db.QueryRowContext(t.Context(), `SELECT v FROM d WHERE id = 1`).Scan(&v); err != nil || v != "A" {
		t.Errorf("the data is %q, %v; expected what the last holder wrote", v, err)
	}
}

func TestReleasesElsewhereAndRequestsToStepDown(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		client := open(t, url)
		here, there := leaseredis.New(client), leaseredis.New(client)
		defer here.Close()
		defer there.Close()
		m, err := lease.NewManager(here, lease.TTL(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		asked := make(chan struct{}, 1)
		holder, err := lease.NewManager(there, lease.TTL(time.Hour), lease.OnStepDown(func(l *lease.Lease) {
			if err := l.Release(context.Background()); err != nil {
				t.Error(err)
			}
			asked <- struct{}{}
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close()
		l, err := holder.TryAcquire(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		kept := l.KeepAlive(t.Context())

		woken := make(chan struct{}, 100)
		live, stop := here.Watch("r", func() { woken <- struct{}{} })
		defer stop()
		listens := make(chan struct{}, 100)
		liveThere, stopThere := there.Watch("r", func() { listens <- struct{}{} })
		defer stopThere()
		// Each wakes who waits when it begins to listen.
		for !live() {
			<-woken
		}
		for !liveThere() {
			<-listens
		}
		got := make(chan error)
		go func() {
			_, err := m.Acquire(context.WithoutCancel(t.Context()), "r")
			got <- err
		}()
		if err := m.AskToStepDown(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		<-asked
		<-kept.Done()
		if err := <-got; err != nil {
			t.Errorf("Acquire: %v", err)
		}
		<-woken
	})
}
