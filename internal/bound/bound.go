// Package bound measures waits that must end in time for their outcome to be told.
package bound

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// A tenth of the time until the caller's deadline, within these bounds, is
	// kept back from a wait, so that its outcome is known before the deadline.
	minAnswerTime = 50 * time.Millisecond
	maxAnswerTime = 500 * time.Millisecond
)

// Bound is the time by which a wait ends.
type Bound struct {
	Total time.Duration // from the start
	start time.Time
}

// New returns wait from now, cut to what ctx's deadline leaves.
func New(ctx context.Context, wait time.Duration) Bound {
	now := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		left := deadline.Sub(now)
		answer := min(max(left/10, minAnswerTime), maxAnswerTime)
		wait = min(wait, max(left-answer, 0))
	}
	return Bound{Total: wait, start: now}
}

// Left returns what is left, never below 0.
func (b Bound) Left() time.Duration { return max(b.Total-time.Since(b.start), 0) }

// Microseconds returns what is left, rounded up: 0 means not to wait at all.
func (b Bound) Microseconds() int64 {
	return int64((b.Left() + time.Microsecond - 1) / time.Microsecond)
}

// Seconds returns what is left, rounded up.
func (b Bound) Seconds() int64 { return int64((b.Left() + time.Second - 1) / time.Second) }

// Pause waits for half of length or more, so that rivals do not keep step, and
// reports false if ctx ended.
func Pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length/2 + rand.N(length/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
