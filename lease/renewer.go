package lease

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// tick is the longest sleep of the renewer. Its timer runs on the
	// monotonic clock and would sleep through a suspend; the ticks make it look
	// at the wall clock soon after.
	tick = time.Second
	// maxSingles is how many renewals of one lease alone may be in flight: a
	// stuck row must not hold up another, and stuck rows must not take a whole
	// connection pool.
	maxSingles = 4
	// minBatch and maxBatches: many leases are renewed by several requests, one
	// after the other, so that none is so long that its end comes too late for
	// all; and by few, so that their number does not grow with the leases. A
	// [Batcher] has a minBatch of its own.
	minBatch   = 1000
	maxBatches = 16
	// reserveTimeout bounds how long KeepAlive waits for a connection of its
	// own.
	reserveTimeout = time.Second
)

// renewer keeps the leases of a manager alive: one goroutine that never waits
// for the store, started with the first lease and gone after the last. It
// sends the requests from goroutines of their own and watches the deadlines
// itself, so a deadline is never behind a request that hangs.
//
// All leases that are due go into one request, or a few if there are thousands,
// in the order of their names, every TTL/3. A lease whose renewal fails while the
// request succeeds (its row is locked, say) is retried alone, because the batch
// would skip it again.
//
// Lock order: renewer, lease.
type renewer struct {
	manager  *Manager
	minBatch int
	poke     chan struct{} // wakes the goroutine

	mu      sync.Mutex
	kept    map[*Lease]*entry
	batch   *call // in flight
	singles int   // in flight
	size    int   // of a batch, in the round at work; 0 between rounds
	running bool
	reserve Reserve // the connection for renewals, nil: none
	taking  bool    // the reserve is just being taken
	closed  bool
	next    time.Time // when the goroutine wakes by itself
}

// entry is what the renewer knows of a lease.
type entry struct {
	keeps    map[*keep]struct{}
	due      time.Time // of the next renewal
	failures int       // since the last success
	failure  error     // the last one
	alone    bool      // to be retried alone
	warned   bool      // of the deadline, since the last success
	call     *call     // in flight
}

// call is a request in flight.
type call struct {
	leases  []*Lease
	single  bool
	sent    instant
	abandon time.Time // when it is no longer waited for, even if it does not return
	live    int       // leases that still want the answer
	reserve Reserve   // what to ask; nil: the store
	cancel  context.CancelFunc
}

func (r *renewer) init(m *Manager) {
	r.manager, r.minBatch = m, minBatch
	if batcher, ok := m.store.(Batcher); ok {
		r.minBatch = batcher.Batch()
	}
	r.poke = make(chan struct{}, 1)
	r.kept = make(map[*Lease]*entry)
}

// prepare takes a connection for the renewals, if the store has one to spare,
// before the program's transactions take it: the Acquire has just given one back.
func (r *renewer) prepare() {
	reserver, ok := r.manager.store.(Reserver)
	if !ok {
		return
	}
	r.mu.Lock()
	if r.reserve != nil || r.taking || r.closed {
		r.mu.Unlock()
		return
	}
	r.taking = true
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), reserveTimeout)
	defer cancel()
	reserve := reserver.Reserve(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taking = false
	r.reserve = reserve
}

// add takes a reason to renew the lease. The error is why that cannot be.
func (r *renewer) add(l *Lease, k *keep) error {
	r.mu.Lock()
	err := r.addLocked(l, k)
	unused := r.idle()
	r.mu.Unlock()
	if unused != nil {
		unused.Close()
	}
	return err
}

func (r *renewer) addLocked(l *Lease, k *keep) error {
	// Looked at under the lock: whoever ends the lease removes it afterwards.
	if ended := l.loss(); ended != nil {
		return ended
	}
	if r.closed {
		return errClosed
	}
	if !r.running {
		r.manager.calls.Add(1)
		r.running = true
		r.next = time.Now()
		go r.run()
	}
	e := r.kept[l]
	if e == nil {
		e = &entry{keeps: make(map[*keep]struct{}), due: l.firstDue()}
		r.kept[l] = e
	}
	e.keeps[k] = struct{}{}
	if e.due.Before(r.next) {
		r.wake()
	}
	return nil
}

// idle returns the connection for renewals when there are none to make: the
// caller closes it when it has given up the lock.
func (r *renewer) idle() Reserve {
	if r.running {
		return nil
	}
	reserve := r.reserve
	r.reserve = nil
	return reserve
}

// errClosed is the cause of contexts that end by Close.
var errClosed = fmt.Errorf("%w: %w", ErrClosed, ErrLost)

// drop takes a reason back. A lease without any is no longer renewed.
func (r *renewer) drop(l *Lease, k *keep) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.kept[l]
	if e == nil {
		return
	}
	delete(e.keeps, k)
	if len(e.keeps) == 0 {
		r.forget(l, e)
	}
}

// remove takes the lease out, and returns the reasons there were to keep it.
func (r *renewer) remove(l *Lease) []*keep {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.kept[l]
	if e == nil {
		return nil
	}
	r.forget(l, e)
	keeps := make([]*keep, 0, len(e.keeps))
	for k := range e.keeps {
		keeps = append(keeps, k)
	}
	return keeps
}

// forget deletes the lease's entry. A request whose answer nobody wants any
// more is cancelled.
func (r *renewer) forget(l *Lease, e *entry) {
	delete(r.kept, l)
	if e.call != nil {
		e.call.live--
		if e.call.live == 0 {
			e.call.cancel()
		}
	}
	if len(r.kept) == 0 {
		r.wake()
	}
}

// close ends all kept leases, and lets no more in.
func (r *renewer) close() {
	r.mu.Lock()
	r.closed = true
	all := make([]*Lease, 0, len(r.kept))
	for l := range r.kept {
		all = append(all, l)
	}
	r.mu.Unlock()
	for _, l := range all {
		l.end(errClosed)
	}
}

func (r *renewer) wake() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

func (r *renewer) run() {
	defer r.manager.calls.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.poke:
		}
		pause, more := r.turn()
		if !more {
			return
		}
		timer.Reset(pause)
	}
}

// turn ends the leases whose time is up, sends what is due, and returns how
// long to sleep; false when no lease is left.
func (r *renewer) turn() (time.Duration, bool) {
	now := r.manager.now()
	var ended []ending
	r.mu.Lock()
	if r.batch != nil && !now.mono.Before(r.batch.abandon) {
		r.settled(r.batch)
	}
	pause := tick
	var batch, alone []*Lease
	batchDue := false
	for l, e := range r.kept {
		left := l.left(now)
		if l.maxHold > 0 {
			hold := l.maxHold - now.since(l.granted)
			if hold <= 0 {
				ended = append(ended, ending{l, l.heldTooLong()})
				continue
			}
			pause = min(pause, hold)
		}
		if left <= 0 {
			ended = append(ended, ending{l, l.overdue(e.failure)})
			continue
		}
		pause = min(pause, left)
		if warn := l.set.warn; warn != nil && !e.warned {
			if ahead := left - l.set.warning; ahead > 0 {
				pause = min(pause, ahead)
			} else {
				e.warned = true
				r.manager.calls.Add(1)
				go func() {
					defer r.manager.calls.Done()
					warn(l)
				}()
			}
		}
		if e.call != nil && !now.mono.Before(e.call.abandon) {
			r.settled(e.call)
		}
		if e.call != nil {
			pause = min(pause, e.call.abandon.Sub(now.mono))
			continue
		}
		wait := e.due.Sub(now.mono)
		switch {
		case e.alone && wait <= 0:
			alone = append(alone, l)
		case e.alone:
			pause = min(pause, wait)
		case wait <= 0:
			batchDue = true
			batch = append(batch, l)
		default:
			pause = min(pause, wait)
			// Leases that are past half of their interval come along, so that
			// all fall into step within two rounds.
			if wait <= l.interval()/2 {
				batch = append(batch, l)
			}
		}
	}
	switch {
	case !batchDue:
		r.size = 0
	case r.batch == nil:
		if r.size == 0 {
			r.size = max(r.minBatch, (len(batch)+maxBatches-1)/maxBatches)
		}
		if len(batch) > r.size {
			// Those with the least time left first.
			slices.SortFunc(batch, func(a, b *Lease) int { return cmp.Compare(a.left(now), b.left(now)) })
			batch = batch[:r.size]
		}
		r.send(now, batch, false)
	}
	// Those with the least time left first.
	slices.SortFunc(alone, func(a, b *Lease) int { return cmp.Compare(a.left(now), b.left(now)) })
	for _, l := range alone {
		if r.singles == maxSingles {
			break // the next answer wakes us
		}
		r.send(now, []*Lease{l}, true)
	}
	more := len(r.kept) > 0
	var unused Reserve
	if !more {
		r.running = false
		unused = r.idle()
	}
	r.next = now.mono.Add(pause)
	r.mu.Unlock()

	if unused != nil {
		unused.Close()
	}
	// Outside of the lock, which end takes itself.
	for _, e := range ended {
		e.lease.end(e.cause)
	}
	return pause, more
}

// ending is a lease whose time is up, and why.
type ending struct {
	lease *Lease
	cause error
}

// send makes a request in a goroutine of its own.
func (r *renewer) send(now instant, leases []*Lease, single bool) {
	slices.SortFunc(leases, func(a, b *Lease) int { return cmp.Compare(a.token.Resource, b.token.Resource) })
	timeout := leases[0].interval()
	claims := make([]Claim, 0, len(leases))
	c := &call{single: single, sent: now}
	for _, l := range leases {
		if l.begin() != nil {
			continue // it has ended, and is about to be removed
		}
		timeout = min(timeout, l.interval())
		claims = append(claims, l.claim())
		c.leases = append(c.leases, l)
		r.kept[l].call = c
	}
	if len(claims) == 0 {
		return
	}
	if single {
		r.singles++
	} else {
		r.batch, c.reserve = c, r.reserve
	}
	c.live = len(c.leases)
	c.abandon = now.mono.Add(timeout + timeout/4)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	c.cancel = cancel
	r.manager.calls.Add(1)
	go func() {
		defer r.manager.calls.Done()
		defer cancel()
		renew := r.manager.store.Renew
		if c.reserve != nil {
			renew = c.reserve.Renew
		}
		renewed, err := renew(ctx, claims)
		if err == nil && len(renewed) != len(claims) {
			err = fmt.Errorf("sqlfence: the store answered %d renewals with %d results", len(claims), len(renewed))
		}
		r.receive(c, renewed, err)
	}()
}

// receive takes the answer to a call, also one that is no longer waited for.
func (r *renewer) receive(c *call, renewed []Renewed, err error) {
	outcome := make([]error, len(c.leases))
	for i, l := range c.leases {
		if err != nil {
			outcome[i] = err
		} else {
			outcome[i] = l.settle(c.sent, renewed[i])
		}
		l.done()
	}
	now := r.manager.now()
	failed := 0
	for _, err := range outcome {
		if err != nil {
			failed++
		}
	}
	r.manager.defaults.report.renewed(len(c.leases), failed, now.since(c.sent), firstOf(outcome))
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.settled(c)
	for i, l := range c.leases {
		e := r.kept[l]
		if e == nil || e.call != c {
			continue // gone, or not waited for any more
		}
		if outcome[i] == nil {
			e.failures, e.failure, e.alone, e.warned = 0, nil, false, false
			e.due = c.sent.mono.Add(l.interval())
			continue
		}
		e.failures++
		e.failure = outcome[i]
		e.alone = err == nil
		e.due = now.mono.Add(l.backoff(e.failures))
	}
	r.wake()
}

// firstOf returns the first error that there is.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// settled notes that a call is no longer waited for.
func (r *renewer) settled(c *call) {
	if r.batch == c {
		r.batch = nil
	}
	if c.single {
		c.single = false
		r.singles--
	}
	for _, l := range c.leases {
		if e := r.kept[l]; e != nil && e.call == c {
			e.call = nil
		}
	}
}

// interval is the time between two renewals.
func (l *Lease) interval() time.Duration { return l.ttl / 3 }

// backoff is the pause after the nth failure: doubling, and short against the
// time that is left, so that one moment of recovery is enough.
func (l *Lease) backoff(n int) time.Duration {
	pause := l.ttl / 60 << min(n-1, 3)
	return max(min(pause, l.ttl/10), time.Millisecond)
}

// firstDue is when a lease that was not renewed so far is due.
func (l *Lease) firstDue() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent.mono.Add(l.interval())
}
