package lease

import (
	"context"
	"errors"
	"fmt"
)

var errNoFunction = fmt.Errorf("%w: no function to run", ErrInvalidInput)

// Hold acquires the lease like [Manager.Acquire], runs fn with a context that
// carries the token, renews in the background while fn runs, and releases at
// the end, also if fn panics; the panic goes on.
//
// It waits for other managers, not for its own: while a lease of this manager
// holds the resource, Hold is granted a newer epoch and ends that lease, fn's
// context included. With [OnReentry]([ReentryRefuse]) goroutines that share a
// manager wait for each other; a Hold of the same resource inside of fn then waits
// for itself.
//
// fn runs after a wait: what was read before Hold may be old by then.
//
// fn's context ends with ctx; or, with a cause that matches [ErrLost] and
// tells why, when ownership ends: no later than the TTL after the last
// successful request was sent. If ctx ends, the lease is still renewed until
// fn returns, so that fn can clean up under it; a job that never returns is
// what [MaxHold] is for.
//
// Hold returns Acquire's error without running fn; otherwise fn's error,
// joined with the loss if ownership ended before fn returned, also if fn
// returned nil, and with Release's error. A loss that only the release finds is
// left out if fn's error matches [ErrLost] already.
func (m *Manager) Hold(ctx context.Context, resource string, fn func(context.Context) error, opts ...Option) error {
	if fn == nil {
		return errNoFunction
	}
	l, err := m.Acquire(ctx, resource, opts...)
	if err != nil {
		return err
	}
	return l.hold(ctx, fn)
}

// hold runs fn under the lease, and releases it.
func (l *Lease) hold(ctx context.Context, fn func(context.Context) error) (err error) {
	kept, _ := l.keep(ctx)
	defer func() {
		if loss := l.loss(); loss != nil {
			// It is given back all the same: a renewal may have arrived after
			// the deadline. What the store says to that is not news.
			_ = l.Release(ctx)
			if !errors.Is(err, loss) {
				err = errors.Join(err, loss)
			}
			return
		}
		released := l.Release(ctx)
		if errors.Is(released, ErrLost) && errors.Is(err, ErrLost) {
			return // fn has found out before
		}
		if released != nil {
			err = errors.Join(err, released)
		}
	}()
	return fn(kept)
}
