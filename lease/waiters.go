package lease

import (
	"slices"
	"sync"
)

// waiters are the Acquires of one manager that want a resource which somebody
// holds. Of those that want the same one, only the first asks the store again
// and again; the others sleep until they are the first, or are woken. A release
// wakes one: in this manager at once, elsewhere if the store can tell of it.
type waiters struct {
	watcher Watcher // nil if the store is none

	mu         sync.Mutex
	byResource map[string]*queue
}

// queue is those who wait for one resource, in the order of their arrival.
type queue struct {
	all  []*waiter
	live func() bool // whether releases elsewhere are told of; nil: not asked for
	stop func()
}

// waiter is one Acquire.
type waiter struct {
	kind  kind
	woken chan struct{} // has a value when the resource was released
	first chan struct{} // has a value when the waiter has become the first
	offer *Lease        // a lease that somebody else no longer wants; guarded by waiters.mu
}

// join is to be called before the attempt: a release between the attempt and the
// sleep must not be missed.
func (w *waiters) join(k kind) *waiter {
	me := &waiter{kind: k, woken: make(chan struct{}, 1), first: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byResource == nil {
		w.byResource = make(map[string]*queue)
	}
	q := w.byResource[k.resource]
	if q == nil {
		q = &queue{}
		w.byResource[k.resource] = q
	}
	q.all = append(q.all, me)
	return me
}

// leave takes a waiter out. It hands a wake-up on that the waiter did not use: one
// that it did not take from the channel, or after which it did not try. An
// offer that it did not take is returned.
func (w *waiters) leave(me *waiter, unused bool) *Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	offer := me.offer
	me.offer = nil
	q := w.byResource[me.kind.resource]
	i := slices.Index(q.all, me)
	q.all = slices.Delete(q.all, i, i+1)
	if len(q.all) == 0 {
		delete(w.byResource, me.kind.resource)
		if q.stop != nil {
			go q.stop() // it may wait for a call of wake, which waits for us
		}
		return offer
	}
	if i == 0 {
		signal(q.all[0].first)
	}
	select {
	case <-me.woken:
		unused = true
	default:
	}
	if unused {
		q.wake()
	}
	return offer
}

// watch asks the store to tell of releases elsewhere, if it can. It reports true
// if that was not so before: a release may just have been missed.
func (w *waiters) watch(me *waiter) bool {
	if w.watcher == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.byResource[me.kind.resource]
	if q.live != nil {
		return false
	}
	resource := me.kind.resource
	// The watcher calls wake from goroutines of its own only.
	q.live, q.stop = w.watcher.Watch(resource, func() { w.wake(resource) })
	if q.live == nil {
		q.live = func() bool { return false }
		return false
	}
	return true
}

// place tells whether the waiter is the first, and whether it will be told of
// releases elsewhere.
func (w *waiters) place(me *waiter) (first, told bool) {
	w.mu.Lock()
	q := w.byResource[me.kind.resource]
	first = q.all[0] == me
	live := q.live
	w.mu.Unlock()
	return first, live != nil && live()
}

// wake tells one waiter that the resource was released.
func (w *waiters) wake(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.byResource[resource]; q != nil {
		q.wake()
	}
}

// hand gives a lease that nobody wants any more to somebody who waits for one of
// its kind. It reports false if there is none.
func (w *waiters) hand(k kind, l *Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.byResource[k.resource]
	if q == nil {
		return false
	}
	for _, other := range q.all {
		if other.kind == k && other.offer == nil {
			other.offer = l
			signal(other.woken)
			return true
		}
	}
	return false
}

// take returns the lease that the waiter was handed, if any.
func (w *waiters) take(me *waiter) *Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	offer := me.offer
	me.offer = nil
	return offer
}

func (q *queue) wake() {
	for _, one := range q.all {
		select {
		case one.woken <- struct{}{}:
			return
		default: // already told
		}
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
