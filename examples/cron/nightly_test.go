package cron_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/examples/cron"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(postgres.DriverName, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := guard.Migrate(t.Context(), db, sqlgen.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{cron.Schema, `CREATE TABLE IF NOT EXISTS bills (night varchar(10), replica varchar(10))`} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func manager(t *testing.T, db *sql.DB) *lease.Manager {
	t.Helper()
	leases, err := lease.NewManager(leasepg.New(db), lease.TTL(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leases.Close)
	return leases
}

func bills(t *testing.T, db *sql.DB) (found string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT COALESCE(string_agg(night || ' by ' || replica, ', ' ORDER BY night, replica), '') FROM bills`).Scan(&found); err != nil {
		t.Fatal(err)
	}
	return found
}

func done(t *testing.T, db *sql.DB, night string) (done bool) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT 1 FROM nights WHERE night = $1)`, night).Scan(&done); err != nil {
		t.Error(err)
		return true
	}
	return done
}

func TestOneReplicaWorksEachNight(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		nights := []string{"mon", "tue"}
		var replicas sync.WaitGroup
		for range 5 {
			n := &cron.Nightly{DB: db, Leases: manager(t, db), Name: "billing", Work: func(ctx context.Context, night string) error {
				_, err := db.ExecContext(ctx, `INSERT INTO bills VALUES ($1, 'any')`, night)
				return err
			}}
			replicas.Go(func() {
				for _, night := range nights {
					for !done(t, db, night) {
						if _, err := n.Run(t.Context(), night); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		replicas.Wait()
		if got, want := bills(t, db), "mon by any, tue by any"; got != want {
			t.Errorf("bills: %s, want %s", got, want)
		}
	})
}

// The replica that works freezes and misses its renewals; another takes the job over.
func TestAFrozenReplicaWritesNothingAfterTheTakeover(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		frozen, works, wakes := manager(t, db), make(chan struct{}), make(chan struct{})
		a := &cron.Nightly{DB: db, Leases: frozen, Name: "billing", Work: func(ctx context.Context, night string) error {
			close(works)
			<-wakes
			// A process that was frozen does not know that its context has ended.
			_, err := db.ExecContext(context.WithoutCancel(ctx), `INSERT INTO bills VALUES ($1, 'a')`, night)
			return err
		}}
		b := &cron.Nightly{DB: db, Leases: manager(t, db), Name: "billing", Work: func(ctx context.Context, night string) error {
			_, err := db.ExecContext(ctx, `INSERT INTO bills VALUES ($1, 'b')`, night)
			return err
		}}
		ended := make(chan error, 1)
		go func() {
			_, err := a.Run(t.Context(), "mon")
			ended <- err
		}()
		<-works
		if worked, err := b.Run(t.Context(), "mon"); worked || err != nil {
			t.Fatalf("b, while a works: %t, %v", worked, err)
		}
		frozen.Close() // no renewal from now on
		for worked := false; !worked; {
			var err error
			if worked, err = b.Run(t.Context(), "mon"); err != nil {
				t.Fatal(err)
			}
		}
		close(wakes)
		if err := <-ended; !errors.Is(err, guard.ErrFenced) {
			t.Errorf("a, after the takeover: %v, want %v", err, guard.ErrFenced)
		}
		if got, want := bills(t, db), "mon by b"; got != want {
			t.Errorf("bills: %s, want %s", got, want)
		}
	})
}
