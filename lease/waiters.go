package lease

import (
	"slices"
	"sync"
)

// waiters are the Acquires of one manager that sleep until a resource is
// released. A release in the same manager wakes one; of releases elsewhere
// they learn by polling. A store that can tell of those would call wake too.
type waiters struct {
	mu         sync.Mutex
	byResource map[string][]chan struct{}
}

// join returns a channel that gets a value when the resource was released. It
// is to be joined before the attempt: a release between the attempt and the
// sleep must not be missed.
func (w *waiters) join(resource string) chan struct{} {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byResource == nil {
		w.byResource = make(map[string][]chan struct{})
	}
	w.byResource[resource] = append(w.byResource[resource], ch)
	return ch
}

// leave takes a waiter out. It hands a wake-up on that the waiter did not use:
// one that it did not take from the channel, or after which it did not try.
func (w *waiters) leave(resource string, ch chan struct{}, unused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.byResource[resource]
	if i := slices.Index(all, ch); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == 0 {
		delete(w.byResource, resource)
		return
	}
	w.byResource[resource] = all
	select {
	case <-ch:
		unused = true
	default:
	}
	if unused {
		w.wakeOne(all)
	}
}

// wake tells one waiter that the resource was released.
func (w *waiters) wake(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeOne(w.byResource[resource])
}

func (w *waiters) wakeOne(all []chan struct{}) {
	for _, ch := range all {
		select {
		case ch <- struct{}{}:
			return
		default: // already told
		}
	}
}
