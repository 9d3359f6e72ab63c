package holdtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// Worker is what works in a guarded database, which has a table d of one text v.
type Worker struct {
	DB *sql.DB // by a driver of ours
	// Sleep is a statement that goes on for a minute or longer, and Sleeping tells how
	// many of them are under way.
	Sleep    string
	Sleeping func() int
	// TakeOver makes the lease of "job" lapse, and another owner acquire it.
	TakeOver func()
}

// LossEndsTheWork checks CASES D4: a worker that waits in the database is stopped when its
// lease is lost, and whoever goes on under another context is refused.
func LossEndsTheWork(t *testing.T, store lease.Store, w Worker) {
	t.Helper()
	m := manager(t, store, lease.Owner("A"), lease.TTL(6*time.Second))
	const write = `INSERT INTO d VALUES ('A')`
	var token guard.Token
	err := m.Hold(t.Context(), "job", func(ctx context.Context) error {
		token = guard.Tokens(ctx)[0]
		if _, err := w.DB.ExecContext(ctx, write); err != nil {
			t.Errorf("the holder's write: %v", err)
		}
		done := make(chan error, 1)
		go func() {
			var nothing any
			done <- w.DB.QueryRowContext(ctx, w.Sleep).Scan(&nothing)
		}()
		for w.Sleeping() == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		w.TakeOver()
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
	if _, err := w.DB.ExecContext(guard.With(context.Background(), token), write); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("a write under another context: %v, expected that it is fenced", err)
	}
}
