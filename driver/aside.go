package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sqlfence/sqlfence/driver/internal/native"
)

const (
	// asideTimeout bounds how long a statement that has failed waits for an answer
	// from another connection: its transaction keeps its locks meanwhile.
	asideTimeout = 2 * time.Second
	// asidePause is how long no other connection is asked for after one could not
	// be had: over a pool that is used up each question would cost asideTimeout.
	asidePause = 10 * time.Second
	// asideIdle is how long the connection is kept for the next question. It may
	// be one of a bounded pool, whose other users want it.
	asideIdle = 500 * time.Millisecond
)

var errNoAside = errors.New("sqlfence: no connection to ask on")

// aside is the connection of a connector on which is asked what a failed
// transaction does not answer any more. It is opened when there is something to
// ask and closed when nobody has for a while, or with the connector. It is safe
// for concurrent use.
type aside struct {
	slot   sync.Mutex // of what is below
	on     *session   // nil: none is open
	idle   *time.Timer
	asked  uint64 // how many questions there were; the timer of an older one is void
	pause  time.Time
	closed bool
}

// ask calls question with a session on the connection. The error says that there
// is none, or is that of question.
func (a *aside) ask(ctx context.Context, s *shared, question func(context.Context, *session) error) error {
	a.slot.Lock()
	defer a.slot.Unlock()
	if a.closed || time.Now().Before(a.pause) {
		return errNoAside
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(outer, asideTimeout)
	defer cancel()
	a.asked++
	if a.on != nil {
		a.idle.Stop()
		if question(ctx, a.on) == nil {
			a.rest()
			return nil
		}
		a.drop() // the server may have closed it meanwhile
	}
	raw, err := s.connect(ctx)
	if err != nil {
		if outer.Err() == nil {
			a.pause = time.Now().Add(asidePause)
		}
		return err
	}
	a.on = &session{raw: raw, native: native.Of(raw), shared: s}
	if err := question(ctx, a.on); err != nil {
		a.drop()
		return err
	}
	a.rest()
	return nil
}

// rest keeps the connection for a while.
func (a *aside) rest() {
	asked := a.asked
	a.idle = time.AfterFunc(asideIdle, func() {
		a.slot.Lock()
		defer a.slot.Unlock()
		if a.asked == asked {
			a.drop()
		}
	})
}

// drop closes the connection, if one is open.
func (a *aside) drop() {
	if a.on != nil {
		_ = a.on.raw.Close() // it has said what it had to say
		a.on = nil
	}
}

// close is called when the connector is closed: no question comes any more.
func (a *aside) close() {
	a.slot.Lock()
	defer a.slot.Unlock()
	a.closed = true
	if a.idle != nil {
		a.idle.Stop()
	}
	a.drop()
}
