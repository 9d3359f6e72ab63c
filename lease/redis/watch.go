package redis

import (
	"context"
	"errors"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/listen"
)

var _ lease.Watcher = (*Store)(nil)

// silence is after how long without a message the server is asked whether it is
// still there; a second one ends the connection.
const silence = 5 * time.Second

// errSilent: the subscription's connection is dead.
var errSilent = errors.New("sqlfence: the subscription does not answer")

// Watch implements [lease.Watcher] by one subscription, which all waiters of the
// store share. It is ended 10 s after the last of them has left.
func (s *Store) Watch(resource string, wake func()) (live func() bool, stop func()) {
	return s.hub.Watch(resource, wake)
}

var _ lease.Asker = (*Store)(nil)

// Ask implements [lease.Asker], by a message on the channel "<prefix>:asked".
func (s *Store) Ask(ctx context.Context, resource string) error {
	if err := guard.ValidateResource(resource); err != nil {
		return err
	}
	return s.client.Publish(ctx, s.askChannel(), resource).Err()
}

// Asked implements [lease.Asker].
func (s *Store) Asked(resource string, asked func()) (stop func()) {
	return s.hub.Asked(resource, asked)
}

// Close ends the subscription at once. Waiters poll from then on; everything else
// works on. It does not close the client.
func (s *Store) Close() error {
	s.hub.Close()
	return nil
}

// subscribe is the Listen of the store's hub. One channel serves all resources,
// so nothing is sent when a waiter comes or goes.
func (s *Store) subscribe(ctx context.Context, h *listen.Hub) error {
	p := s.client.Subscribe(ctx, s.channel(), s.askChannel())
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	defer p.Close() //nolint:errcheck // it has nothing to tell
	asked := false
	for {
		message, err := p.ReceiveTimeout(ctx, silence)
		var network net.Error
		switch {
		case err == nil:
			asked = false
		case errors.As(err, &network) && network.Timeout() && ctx.Err() == nil && !asked:
			asked = true
			if err := p.Ping(ctx); err != nil {
				return err
			}
			continue
		case asked && ctx.Err() == nil:
			return errSilent
		default:
			return err
		}
		switch m := message.(type) {
		case *goredis.Subscription:
			// Also after the client has connected anew by itself.
			if m.Channel == s.channel() {
				h.Up(nil)
				h.Up([]string{""})
			}
		case *goredis.Message:
			if m.Channel == s.askChannel() {
				h.TellAsked(m.Payload)
			} else {
				h.Tell(m.Payload)
			}
		}
	}
}
