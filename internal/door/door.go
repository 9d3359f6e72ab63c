// Package door lets a takeover on SQLite get its turn.
//
// SQLite has no queue for its write lock: who polls more often gets it sooner, and
// a takeover behind many writers that come back at once may wait for seconds.
// The door is a lock file beside the database, across processes: whoever takes
// over shuts it while it waits for the lock, and whoever is about to begin a
// write looks whether it is open. So those in front of the takeover are those
// that had begun before.
//
// It is a courtesy and nothing is safe by it: who does not know of it writes as
// ever, and nobody waits at it for more than a second. A lock on the file ends
// with its process; the file is removed when the door opens. What else may have its
// name (a link, a folder, a file with something in it, an empty one that nobody here
// has made) is neither followed nor changed nor removed: then there is no door, or
// one that stays.
package door

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// Patience is how long anybody waits at a shut door: who shut it may have
	// been stopped.
	Patience = time.Second

	suffix = "-sqlfence-door"
	// mark is what a file holds that was made here.
	mark  = "sqlfence door\n"
	pause = time.Millisecond
)

// Pass waits while the door of a database file is shut, until ctx ends or the
// patience is spent. Databases without a file ("") have none.
func Pass(ctx context.Context, file string) {
	if file == "" || isOpen(file+suffix) {
		return
	}
	for start := time.Now(); time.Since(start) < Patience; {
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if isOpen(file + suffix) {
			return
		}
	}
}

// Shut shuts the door, unless somebody else has: then ok is false. open opens it
// again. An error says why there can be no door here.
func Shut(file string) (open func(), ok bool, err error) {
	if file == "" {
		return func() {}, true, nil
	}
	return shut(file + suffix)
}
