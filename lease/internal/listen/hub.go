// Package listen shares one connection that tells of releases among all who wait
// for one.
package listen

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// linger is how long the connection is kept when nobody waits any more.
	linger = 10 * time.Second
	// The pause between two attempts to connect doubles from firstPause to
	// lastPause.
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Hub is what lies between waiters and the connection. It is safe for concurrent
// use.
type Hub struct {
	// Listen connects and listens, until ctx ends or the connection breaks. It
	// calls Up with the resources of whose releases it will tell from then on,
	// again whenever they change, and Tell for each release. It waits for
	// Changed beside the connection, if it has to know Wanted.
	Listen func(ctx context.Context, h *Hub) error

	mu      sync.Mutex
	watches map[string][]*watch
	live    map[string]bool // nil: none; by the name "": all
	changed chan struct{}
	cancel  context.CancelFunc // nil while nobody listens
	ended   chan struct{}
	idle    *time.Timer
	closed  bool
}

type watch struct{ wake func() }

// Watch implements lease.Watcher.
func (h *Hub) Watch(resource string, wake func()) (live func() bool, stop func()) {
	w := &watch{wake}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches == nil {
		h.watches = make(map[string][]*watch)
		h.changed = make(chan struct{}, 1)
	}
	h.watches[resource] = append(h.watches[resource], w)
	if len(h.watches[resource]) == 1 {
		h.change()
	}
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	if h.cancel == nil && !h.closed {
		ctx, cancel := context.WithCancel(context.Background())
		h.cancel, h.ended = cancel, make(chan struct{})
		go h.run(ctx, h.ended)
	}
	live = func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.live[""] || h.live[resource]
	}
	return live, func() { h.stop(resource, w) }
}

// Asked implements lease.Asker. Nothing is called for no reason here.
func (h *Hub) Asked(resource string, asked func()) (stop func()) {
	_, stop = h.Watch(askOf(resource), asked)
	return stop
}

// TellAsked tells whoever holds the resource that it is asked for.
func (h *Hub) TellAsked(resource string) { h.Tell(askOf(resource)) }

// askOf is no resource's name: those hold no NUL.
func askOf(resource string) string { return "\x00" + resource }

func (h *Hub) stop(resource string, w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.watches[resource]
	if i := slices.Index(all, w); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	h.watches[resource] = all
	if len(all) == 0 {
		delete(h.watches, resource)
		h.change()
	}
	if len(h.watches) == 0 && h.cancel != nil && h.idle == nil {
		h.idle = time.AfterFunc(linger, h.expire)
	}
}

// expire ends the connection if still nobody waits.
func (h *Hub) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = nil
	if len(h.watches) == 0 && h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
}

// Close ends the connection for good: whoever waits polls from then on.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	if h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
	ended := h.ended
	h.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

func (h *Hub) run(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	for length := firstPause; ; length = min(2*length, lastPause) {
		start := time.Now()
		_ = h.Listen(ctx, h) // whoever waits polls meanwhile
		h.Up(nil)
		if time.Since(start) > lastPause {
			length = firstPause
		}
		timer := time.NewTimer(length/2 + rand.N(length/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Wanted returns the resources whose releases are waited for.
func (h *Hub) Wanted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := make([]string, 0, len(h.watches))
	for resource := range h.watches {
		if resource[0] != 0 {
			wanted = append(wanted, resource)
		}
	}
	slices.Sort(wanted)
	return wanted
}

// Changed has a value when Wanted has changed.
func (h *Hub) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *Hub) change() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// Up notes of which resources' releases Tell will be called; the name "" stands
// for all of them. Those that are new are told of once: a release may have been
// missed.
func (h *Hub) Up(resources []string) {
	h.mu.Lock()
	before := h.live
	h.live = make(map[string]bool, len(resources))
	for _, resource := range resources {
		h.live[resource] = true
	}
	var wakes []func()
	for resource, all := range h.watches {
		if resource[0] == 0 {
			continue // see Asked
		}
		is, was := h.live[""] || h.live[resource], before[""] || before[resource]
		if is != was {
			for _, w := range all {
				wakes = append(wakes, w.wake)
			}
		}
	}
	h.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
}

// Tell wakes whoever waits for the resource.
func (h *Hub) Tell(resource string) {
	h.mu.Lock()
	all := slices.Clone(h.watches[resource])
	h.mu.Unlock()
	for _, w := range all {
		w.wake()
	}
}
