package sqlite

import (
	"context"
	"time"

	"github.com/sqlfence/sqlfence/internal/door"
)

// turn is an operation's place at the door of the file: see internal/door.
type turn struct {
	asked bool   // for the file
	file  string // "" where there is none
	shut  func() // opens the door that this operation has shut; nil if it has not
	since time.Time
}

// atDoor is called between two attempts to get the write lock. What moves a mark
// shuts the door, so that no writer begins any more that knows of it, and the
// rest lets it pass. It reports whether to try again: not while somebody else
// has the door shut, for as long as patience lasts.
func (w *waiter) atDoor(ctx, bounded context.Context, q Querier) bool {
	t := &w.turn
	if !t.asked {
		t.asked = true
		t.since = time.Now()
		// Without an answer the operation polls as if there were no door.
		_ = q.QueryRowContext(bounded, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&t.file)
	}
	if t.shut != nil || t.file == "" {
		return true
	}
	if !w.op.durable {
		door.Pass(ctx, t.file)
		return true
	}
	open, ok, err := door.Shut(t.file)
	if ok {
		t.shut = open
		return true
	}
	return err != nil || time.Since(t.since) > door.Patience
}

// open opens the door if this operation has shut it.
func (w *waiter) open() {
	if w.turn.shut != nil {
		w.turn.shut()
		w.turn.shut = nil
	}
}
