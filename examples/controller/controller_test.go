package controller_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/examples/controller"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// replica is a replica of the controller that notes what happens to it.
type replica struct {
	db      *sql.DB
	works   chan context.Context // a context per reconciliation, while somebody looks
	stopped chan error           // why each leadership ended
}

func start(t *testing.T, name, dsn string) *replica {
	t.Helper()
	db, err := sql.Open(postgres.DriverName, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	leases, err := lease.NewManager(leasepg.New(db), lease.TTL(2*time.Second), lease.Owner(name))
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{db: db, works: make(chan context.Context, 1), stopped: make(chan error, 16)}
	c := &controller.Controller{
		Leases: leases, Name: "scaler", Every: 20 * time.Millisecond,
		Reconcile: func(ctx context.Context) error {
			if err := r.write(ctx, name); err != nil {
				return err
			}
			select {
			case r.works <- ctx:
			default:
			}
			return nil
		},
		Observe: func(event string, err error) {
			if event == "leadership ended" {
				r.stopped <- err
			}
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		leases.Close()
	})
	return r
}

func (r *replica) write(ctx context.Context, by string) error {
	_, err := r.db.ExecContext(ctx, `UPDATE scale SET by = $1, writes = writes + 1`, by)
	return err
}

func TestWorkStopsWithLeadershipAndLateWritesAreRefused(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db, err := sql.Open(postgres.DriverName, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := guard.Migrate(t.Context(), db, sqlgen.PostgreSQL); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{`CREATE TABLE scale (by text NOT NULL, writes int NOT NULL)`, `INSERT INTO scale VALUES ('nobody', 0)`} {
			if _, err := db.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}

		proxy, through := testserver.NewProxyDSN(t, dsn)
		a := start(t, "a", through)
		leading := <-a.works
		b := start(t, "b", dsn)
		select {
		case <-b.works:
			t.Fatal("two replicas lead")
		default:
		}

		proxy.Cut() // a cannot reach the database; b can
		<-b.works
		<-leading.Done()
		if cause := context.Cause(leading); !errors.Is(cause, lease.ErrLost) {
			t.Errorf("a's work ended for %v, want %v", cause, lease.ErrLost)
		}
		if err := <-a.stopped; !errors.Is(err, lease.ErrLost) {
			t.Errorf("a's leadership ended with %v, want %v", err, lease.ErrLost)
		}

		proxy.Restore() // and a write of a's that was on its way arrives
		if err := a.write(context.WithoutCancel(leading), "a"); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("a's late write: %v, want %v", err, guard.ErrFenced)
		}
		var by string
		if err := db.QueryRowContext(t.Context(), `SELECT by FROM scale`).Scan(&by); err != nil || by != "b" {
			t.Errorf("the last write is by %q (%v), want b", by, err)
		}
	})
}
