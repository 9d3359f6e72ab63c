package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// CASES D4: a worker that waits in the database is stopped when its lease is lost, and
// whoever goes on under another context is refused.
func TestALossEndsWhatTheWorkerRuns(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, fencedDriver, dsn, "", "")
		if _, err := db.Exec(`CREATE TABLE d (v text)`); err != nil {
			t.Fatal(err)
		}
		m, err := lease.NewManager(leasepg.New(db), lease.Owner("A"), lease.TTL(6*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		sleeping := func() (n int) {
			if err := db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT pg_sleep(600)' AND state = 'active'`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		var token guard.Token
		err = m.Hold(t.Context(), "job", func(ctx context.Context) error {
			token = guard.Tokens(ctx)[0]
			if _, err := db.ExecContext(ctx, `INSERT INTO d VALUES ('A')`); err != nil {
				t.Errorf("the holder's write: %v", err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := db.ExecContext(ctx, `SELECT pg_sleep(600)`)
				done <- err
			}()
			for sleeping() == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			lapse(t, db, "job")
			mustAcquire(t, leasepg.New(db), "job", "B")
			if err := <-done; err == nil {
				t.Error("the worker's statement ended by itself")
			}
			if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrLost) {
				t.Errorf("the cause is %v, expected a loss", cause)
			}
			return nil
		})
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("Hold: %v, expected the loss", err)
		}
		for deadline := time.Now().Add(time.Minute); sleeping() > 0; {
			if time.Now().After(deadline) {
				t.Fatal("the statement goes on in the server")
			}
		}
		if _, err := db.ExecContext(guard.With(context.Background(), token), `INSERT INTO d VALUES ('A')`); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("a write under another context: %v, expected that it is fenced", err)
		}
	})
}
