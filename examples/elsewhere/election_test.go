package elsewhere_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/driver/sqlite"
	"github.com/sqlfence/sqlfence/examples/elsewhere"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// service elects, as etcd does: whoever campaigns while nobody is alive wins, and each
// win has a greater revision.
type service struct {
	revision int64
	free     chan struct{} // holds a value while nobody leads
}

type candidate struct {
	service *service
	rev     int64
	lost    chan struct{}
}

func newService() *service {
	s := &service{revision: 41, free: make(chan struct{}, 1)}
	s.free <- struct{}{}
	return s
}

func (s *service) candidate() *candidate {
	return &candidate{service: s, lost: make(chan struct{})}
}

func (c *candidate) Campaign(ctx context.Context, _ string) error {
	select {
	case <-c.service.free:
		c.service.revision++
		c.rev = c.service.revision
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *candidate) Rev() int64                   { return c.rev }
func (c *candidate) Resign(context.Context) error { return nil }
func (c *candidate) Lost() <-chan struct{}        { return c.lost }

// expire is what the service does with a session that is not kept alive.
func (c *candidate) expire() { c.service.free <- struct{}{} }

func open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(sqlite.DriverName, "file:"+testserver.SQLiteFile(t)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`CREATE TABLE jobs (id int, by text)`, `INSERT INTO jobs VALUES (1, 'nobody')`} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func write(ctx context.Context, db *sql.DB, by string) error {
	_, err := db.ExecContext(ctx, `UPDATE jobs SET by = ? WHERE id = 1`, by)
	return err
}

func TestAnOlderWinnerIsRefused(t *testing.T) {
	db, etcd := open(t), newService()
	a, b := etcd.candidate(), etcd.candidate()
	lead := func(c *candidate, name string, work func(context.Context) error) error {
		return elsewhere.Lead(t.Context(), c, db, sqlgen.SQLite, "jobs", name, work)
	}
	err := lead(a, "a", func(ctx context.Context) error {
		if err := write(ctx, db, "a"); err != nil {
			return err
		}
		a.expire() // and a does not know it yet
		if err := lead(b, "b", func(ctx context.Context) error { return write(ctx, db, "b") }); err != nil {
			t.Errorf("b: %v", err)
		}
		late := write(ctx, db, "a")
		close(a.lost) // now it does
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrLost) {
			t.Errorf("a's context ended for %v, want %v", cause, lease.ErrLost)
		}
		return late
	})
	if !errors.Is(err, guard.ErrFenced) {
		t.Errorf("a, after b was elected: %v, want %v", err, guard.ErrFenced)
	}
	expectBy(t, db, "b")
}

// A winner so slow that it comes to the database after a later one does not work at all.
func TestAWinnerThatComesLateDoesNotWork(t *testing.T) {
	db, etcd := open(t), newService()
	a := etcd.candidate()
	if err := a.Campaign(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	a.expire()
	b := etcd.candidate()
	if err := elsewhere.Lead(t.Context(), b, db, sqlgen.SQLite, "jobs", "b", func(ctx context.Context) error { return write(ctx, db, "b") }); err != nil {
		t.Fatal(err)
	}
	err := elsewhere.Lead(t.Context(), elected{a}, db, sqlgen.SQLite, "jobs", "a", func(context.Context) error {
		t.Error("a works")
		return nil
	})
	if !errors.Is(err, guard.ErrFenced) {
		t.Errorf("a: %v, want %v", err, guard.ErrFenced)
	}
}

// elected is a candidate that has won already.
type elected struct{ *candidate }

func (elected) Campaign(context.Context, string) error { return nil }

func TestLeasesInRedisFenceWritesToSQL(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, dsn string) {
		options, err := redis.ParseURL(dsn)
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(options)
		defer client.Close()
		db := open(t)
		manager := func() *lease.Manager {
			leases, err := elsewhere.NewRedis(client, db, sqlgen.SQLite, lease.TTL(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(leases.Close)
			return leases
		}
		a, err := manager().TryAcquire(t.Context(), "jobs") // which nobody renews
		if err != nil {
			t.Fatal(err)
		}
		stale := guard.With(t.Context(), a.Token())
		if err := write(stale, db, "a"); err != nil {
			t.Errorf("a, while it holds the lease: %v", err)
		}
		if err := manager().Hold(t.Context(), "jobs", func(ctx context.Context) error {
			if err := write(ctx, db, "b"); err != nil {
				return err
			}
			if err := write(stale, db, "a"); !errors.Is(err, guard.ErrFenced) {
				t.Errorf("a, after the takeover: %v, want %v", err, guard.ErrFenced)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		expectBy(t, db, "b")
	})
}

func expectBy(t *testing.T, db *sql.DB, want string) {
	t.Helper()
	var by string
	if err := db.QueryRowContext(t.Context(), `SELECT by FROM jobs`).Scan(&by); err != nil || by != want {
		t.Errorf("the last write is by %q (%v), want %q", by, err, want)
	}
}
