package lease

import (
	"context"
	"fmt"

	"github.com/sqlfence/sqlfence/guard"
)

// Asker is implemented by stores that can carry a request to the holder of a
// resource: postgres and redis.
type Asker interface {
	// Ask asks whoever holds the resource, in any process, to step down. That
	// is a wish: it may arrive nowhere, and nobody has to heed it.
	Ask(ctx context.Context, resource string) error
	// Asked calls asked, which does not block, at each such request until stop
	// is called.
	Asked(resource string, asked func()) (stop func())
}

// OnStepDown calls fn, in a goroutine of its own, when somebody asks the holder
// of a lease that is kept alive to step down, see [Manager.AskToStepDown]: to
// bring its work to an end and release. Requests from other managers arrive
// only where the store is an [Asker].
func OnStepDown(fn func(*Lease)) Option { return func(s *settings) { s.stepDown = fn } }

// AskToStepDown asks the holder of the resource to step down, in this manager
// and, where the store is an [Asker], anywhere. It is a wish: nothing tells
// whether it has arrived, and the holder may go on.
//
// The error matches [ErrInvalidInput], also where the store is no Asker and this
// manager does not hold the resource; or it is the store's.
func (m *Manager) AskToStepDown(ctx context.Context, resource string) error {
	if err := guard.ValidateResource(resource); err != nil {
		return err
	}
	if asker, ok := m.store.(Asker); ok {
		return asker.Ask(ctx, resource)
	}
	here := false
	for _, l := range m.renewer.leasesOf(resource) {
		here = true
		l.asked()
	}
	if !here {
		return fmt.Errorf("%w: a %T cannot carry a request to step down to another manager", ErrInvalidInput, m.store)
	}
	return nil
}

// listen makes requests arrive until ctx ends.
func (l *Lease) listen(ctx context.Context) {
	asker, ok := l.manager.store.(Asker)
	if !ok || l.set.stepDown == nil {
		return
	}
	stop := asker.Asked(l.token.Resource, l.asked)
	context.AfterFunc(ctx, stop)
}

func (l *Lease) asked() {
	if l.set.stepDown != nil && l.manager.enter() {
		go func() {
			defer l.manager.calls.Done()
			l.set.stepDown(l)
		}()
	}
}

// leasesOf returns the leases of a resource that are kept alive.
func (r *renewer) leasesOf(resource string) []*Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Lease
	for l := range r.kept {
		if l.token.Resource == resource {
			all = append(all, l)
		}
	}
	return all
}
