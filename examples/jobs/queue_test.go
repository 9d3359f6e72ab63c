package jobs_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/examples/jobs"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

const many = 20

// open makes a table of open jobs, each with a count of how often it was done.
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
	for _, text := range []string{
		`CREATE TABLE jobs (id bigint PRIMARY KEY, status text NOT NULL, times int NOT NULL)`,
		`INSERT INTO jobs SELECT id, 'open', 0 FROM generate_series(1, 20) AS id`,
	} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func queue(t *testing.T, db *sql.DB) *jobs.Queue {
	t.Helper()
	leases, err := lease.NewManager(leasepg.New(db))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leases.Close)
	return &jobs.Queue{DB: db, Leases: leases, Work: func(ctx context.Context, id int64) error {
		_, err := db.ExecContext(ctx, `UPDATE jobs SET times = times + 1 WHERE id = $1`, id)
		return err
	}}
}

func wantEachOnce(t *testing.T, db *sql.DB) {
	t.Helper()
	var once int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM jobs WHERE status = 'done' AND times = 1`).Scan(&once); err != nil {
		t.Fatal(err)
	}
	if once != many {
		t.Errorf("%d jobs were done once, want all %d", once, many)
	}
}

func TestEachJobIsDoneOnce(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		var all sync.WaitGroup
		var mu sync.Mutex
		total := 0
		for range 2 { // processes
			q := queue(t, db)
			for range 3 {
				all.Go(func() {
					done, err := q.Pass(t.Context())
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					total += done
				})
			}
		}
		all.Wait()
		// One that each of them passed over, because another was just looking at it.
		last, err := queue(t, db).Pass(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if total+last != many {
			t.Errorf("%d jobs were done, want %d", total+last, many)
		}
		wantEachOnce(t, db)
	})
}

func TestAJobThatWasDoneMeanwhileIsPassedOver(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		slow, quick := queue(t, db), queue(t, db)
		work := slow.Work
		slow.Work = func(ctx context.Context, id int64) error {
			if id == 1 { // it has the list of all; all but this one are done by the other
				if done, err := quick.Pass(t.Context()); err != nil || done != many-1 {
					t.Errorf("the other did %d jobs (%v), want %d", done, err, many-1)
				}
			}
			return work(ctx, id)
		}
		if done, err := slow.Pass(t.Context()); err != nil || done != 1 {
			t.Errorf("%d jobs (%v), want 1: the others were done meanwhile", done, err)
		}
		wantEachOnce(t, db)
	})
}
