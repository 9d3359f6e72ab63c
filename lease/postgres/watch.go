package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/listen"
)

const (
	// maxWatched is how many resources one connection watches: each takes a
	// place in the server's table of locks. Waiters for more of them poll.
	maxWatched = 64
	// aliveEvery is after how long without a notification the connection is
	// asked whether it still lives.
	aliveEvery = 15 * time.Second
	// watchAgain is when a watch is tried again that met a release under way.
	watchAgain = 100 * time.Millisecond
	// listenTimeout bounds each statement on the connection.
	listenTimeout = 5 * time.Second
)

// Listener connects to the server for notifications: straight to it, since a
// pooler in transaction mode delivers none. The sub-package pgxlisten has one.
type Listener interface {
	Connect(ctx context.Context) (Connection, error)
}

// Connection is a session of its own. One call at a time; Wait returns soon after
// its context has ended, and leaves the connection as it was.
type Connection interface {
	Exec(ctx context.Context, text string) error
	// QueryBool runs a statement that returns one boolean.
	QueryBool(ctx context.Context, text, arg string) (bool, error)
	// Wait returns the next notification.
	Wait(ctx context.Context) (channel, payload string, err error)
	Close(ctx context.Context) error
}

// Notifications makes waiters learn of releases by LISTEN and NOTIFY, over one
// connection that all waiters of the store share; it is made when somebody
// waits, and ends 10 s after the last has left. Without it, or while it is
// broken, they poll.
func Notifications(l Listener) Option { return func(s *Store) { s.listener = l } }

var (
	_ lease.Watcher = (*Store)(nil)
	_ lease.Asker   = (*Store)(nil)
)

// Watch implements [lease.Watcher]; without [Notifications] it tells of nothing.
func (s *Store) Watch(resource string, wake func()) (live func() bool, stop func()) {
	if s.listener == nil {
		return nil, func() {}
	}
	return s.hub.Watch(resource, wake)
}

// Ask implements [lease.Asker].
func (s *Store) Ask(ctx context.Context, resource string) error {
	if err := guard.ValidateResource(resource); err != nil {
		return err
	}
	return explain(s.retry(ctx, func() error {
		return query(ctx, s.q, askSQL, func(rows *sql.Rows) error { return rows.Scan(new(bool)) }, resource)
	}))
}

// Asked implements [lease.Asker]; without [Notifications] nothing arrives.
func (s *Store) Asked(resource string, asked func()) (stop func()) {
	if s.listener == nil {
		return func() {}
	}
	return s.hub.Asked(resource, asked)
}

// Close ends the connection for notifications. Waiters poll from then on;
// everything else works on. It does not close the database.
func (s *Store) Close() error {
	s.hub.Close()
	return nil
}

// listen is the Listen of the store's hub.
func (s *Store) listen(ctx context.Context, h *listen.Hub) error {
	bounded := func(op func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, listenTimeout)
		defer cancel()
		return op(ctx)
	}
	var c Connection
	if err := bounded(func(ctx context.Context) (err error) { c, err = s.listener.Connect(ctx); return err }); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	}()
	for _, text := range []string{"LISTEN sqlfence_released", "LISTEN sqlfence_asked"} {
		if err := bounded(func(ctx context.Context) error { return c.Exec(ctx, text) }); err != nil {
			return err
		}
	}
	watched := map[string]bool{}
	h.Up(nil)
	for {
		var complete bool
		err := bounded(func(ctx context.Context) (err error) {
			complete, err = watchAll(ctx, c, h, watched)
			return err
		})
		if err != nil {
			return err
		}
		patience := aliveEvery
		if !complete {
			patience = watchAgain
		}
		waiting, cancel := context.WithTimeout(ctx, patience)
		done := make(chan struct{})
		go func() {
			defer close(done)
			select {
			case <-h.Changed():
				cancel()
			case <-waiting.Done():
			}
		}()
		channel, payload, err := c.Wait(waiting)
		over := waiting.Err()
		cancel()
		<-done
		switch {
		case err == nil && channel == "sqlfence_asked":
			h.TellAsked(payload)
		case err == nil:
			h.Tell(payload)
		case ctx.Err() != nil || over == nil:
			return err
		case over == context.DeadlineExceeded: //nolint:errorlint // it is ours, as it is
			if err := bounded(func(ctx context.Context) error { return c.Exec(ctx, "SELECT") }); err != nil {
				return err
			}
		}
	}
}

// watchAll brings the connection's watches in line with what is wanted, and
// reports whether all of them are there. Waiters are told where they are new.
func watchAll(ctx context.Context, c Connection, h *listen.Hub, watched map[string]bool) (complete bool, err error) {
	wanted := h.Wanted()
	keep := make(map[string]bool, len(wanted))
	for _, resource := range wanted {
		keep[resource] = true
	}
	for resource := range watched {
		if !keep[resource] {
			if _, err := c.QueryBool(ctx, unwatchSQL, resource); err != nil {
				return false, err
			}
			delete(watched, resource)
		}
	}
	complete = true
	for _, resource := range wanted {
		if watched[resource] || len(watched) == maxWatched {
			continue
		}
		ok, err := c.QueryBool(ctx, watchSQL, resource)
		if err != nil {
			return false, err
		}
		if ok {
			watched[resource] = true
		}
		complete = complete && ok
	}
	up := make([]string, 0, len(watched))
	for resource := range watched {
		up = append(up, resource)
	}
	h.Up(up)
	return complete, nil
}
