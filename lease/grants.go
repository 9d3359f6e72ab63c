package lease

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"weak"
)

// grants are the leases of a manager that have not ended, by resource. A newer grant
// ends the older ones at once: their next renewal would only find out what is
// known here already, up to a third of the TTL later. What the caller dropped
// without a release is not kept from being collected.
type grants struct {
	mu   sync.Mutex
	live map[string][]grant
}

type grant struct {
	lease weak.Pointer[Lease]
	known instant // when the answer was here
}

// add notes a grant that was answered just now.
func (g *grants) add(l *Lease) {
	now := l.manager.now()
	me := grant{weak.Make(l), now}
	var older []*Lease
	var newer *Lease
	g.mu.Lock()
	if g.live == nil {
		g.live = make(map[string][]grant)
	}
	for _, known := range g.live[l.token.Resource] {
		other := known.lease.Value()
		switch {
		case other == nil: // collected, and about to be forgotten
		case other.token.Epoch < l.token.Epoch:
			older = append(older, other)
		case other.token.Epoch > l.token.Epoch && l.granted.mono.Before(known.known.mono):
			// Both were asked for at once, and this answer is late. Asked for later, a
			// lower epoch is that of a store that lost its state: the newer one.
			newer = other
		}
	}
	g.live[l.token.Resource] = append(g.live[l.token.Resource], me)
	g.mu.Unlock()

	resource := l.token.Resource
	runtime.AddCleanup(l, func(gone weak.Pointer[Lease]) { g.forget(gone, resource) }, me.lease)
	// Outside of the lock, which end takes itself.
	for _, other := range older {
		other.end(other.overtaken(l))
	}
	if newer != nil {
		l.end(l.overtaken(newer))
	}
	if l.loss() != nil {
		g.remove(l) // it had ended before it was noted
	}
}

// remove forgets a lease that has ended.
func (g *grants) remove(l *Lease) { g.forget(weak.Make(l), l.token.Resource) }

func (g *grants) forget(l weak.Pointer[Lease], resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.DeleteFunc(g.live[resource], func(known grant) bool { return known.lease == l })
	if len(all) == 0 {
		delete(g.live, resource)
	} else {
		g.live[resource] = all
	}
}

// overtaken is the loss to a newer grant of the same manager.
func (l *Lease) overtaken(newer *Lease) error {
	if l.owner != newer.owner {
		return fmt.Errorf("%w: %w: %q was acquired again by this manager, as %q, under epoch %d",
			ErrLost, ErrNotOwner, l.token.Resource, newer.owner, newer.token.Epoch)
	}
	return fmt.Errorf("%w: %w: %q was acquired again by its own holder, under epoch %d; with lease.OnReentry(lease.ReentryRefuse) the second one waits",
		ErrLost, ErrEpochMismatch, l.token.Resource, newer.token.Epoch)
}
