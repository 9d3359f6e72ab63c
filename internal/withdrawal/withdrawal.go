// Package withdrawal takes requests back whose answer was lost.
package withdrawal

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/internal/bound"
)

const (
	// Time is for how long a request is tried to be withdrawn.
	Time = 5 * time.Second
	// After is how much of that a caller waits whose context has ended; it also
	// bounds whatever else is done for such a caller.
	After = 400 * time.Millisecond

	pause = 10 * time.Millisecond
)

// Run withdraws a request that may have been granted unseen, or be on its way. It
// calls withdraw until that returns nil, or an error that is final, and returns
// cause; with what is left open if it could not be made sure of within [Time], or
// until [After] has passed since ctx's end. final may be nil: no error is.
func Run(ctx context.Context, cause error, open string, withdraw func(context.Context) error, final func(error) bool) error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Time)
		defer cancel()
		for {
			err := withdraw(ctx)
			// What took the answer away may be over in a moment.
			if err == nil || final != nil && final(err) || !bound.Pause(ctx, pause) {
				done <- err
				return
			}
		}
	}()
	left := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(After, func() { close(left) }) })()
	select {
	case err := <-done:
		if err == nil {
			return cause
		}
		return fmt.Errorf("%w; the request could not be withdrawn (%v): %s", cause, err, open)
	case <-left:
		return fmt.Errorf("%w; the request is still being withdrawn: %s", cause, open)
	}
}
