package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sqlfence/sqlfence/guard"
)

// ErrMaxHold says that a lease was held for as long as [MaxHold] allows.
var ErrMaxHold = errors.New("sqlfence: held for the maximum time")

// errReleased is the cause of contexts that end by a Release. To whoever still
// works with the token it is a loss like any other.
var errReleased = fmt.Errorf("%w: released by its holder", ErrLost)

// Lease is one grant of a resource, made by a [Manager]. It ends once: by loss
// or by Release. It is safe for concurrent use.
type Lease struct {
	manager *Manager
	token   guard.Token
	owner   string
	ttl     time.Duration
	maxHold time.Duration // 0: no limit
	granted instant       // when the grant was asked for
	fence   *registered   // nil: the store's own mark is the one
	set     settings      // what else was asked for

	mu     sync.Mutex
	sent   instant       // when the last request that succeeded was sent
	expiry time.Time     // what that request was answered
	ended  error         // why ownership ended; final
	calls  int           // renewals in flight
	idle   chan struct{} // closed when there are none; nil if there are none

	releasing sync.Mutex // held by the Release at work; guards the two below
	released  bool       // nothing is left to be done
	unsure    bool       // a Release failed, so that its outcome is unknown
}

func newLease(m *Manager, set settings, g Granted, sent instant) *Lease {
	return &Lease{
		manager: m,
		token:   g.Token,
		owner:   set.owner,
		ttl:     set.ttl,
		maxHold: set.maxHold,
		granted: sent,
		fence:   set.fence,
		set:     set,
		sent:    sent,
		expiry:  g.Expiry,
	}
}

// adopt gives a lease that nobody has seen yet the settings of who gets it, who
// asked for one of the same kind.
func (l *Lease) adopt(set settings) {
	l.mu.Lock() // a newer grant may be ending it
	defer l.mu.Unlock()
	l.maxHold, l.set = set.maxHold, set
}

// String returns resource, epoch and whether the lease has ended, for logs.
func (l *Lease) String() string {
	status := "held"
	if l.loss() != nil {
		status = "ended"
	}
	return fmt.Sprintf("lease of %q, epoch %d, %s", l.token.Resource, l.token.Epoch, status)
}

// Token returns the fencing token. It does not change in the life of the lease.
func (l *Lease) Token() guard.Token { return l.token }

// Resource returns the name of the thing owned.
func (l *Lease) Resource() string { return l.token.Resource }

// Owner returns the identity under which the lease was acquired.
func (l *Lease) Owner() string { return l.owner }

// Expiry returns when the lease expires as the store said last: an instant of
// the store's clock, not to be compared with this machine's.
func (l *Lease) Expiry() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expiry
}

// Deadline returns when, by this machine's clock, the lease can no longer be
// relied on: the TTL after the last successful request was sent. Unless the
// wall clock jumps forward or the machine sleeps, see [Lease.Expired].
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent.mono.Add(l.ttl)
}

// Expired reports whether, at now, the lease has ended, or has run out by this
// machine's monotonic or wall clock, whichever says so first: after a suspend
// the monotonic clock may not have moved. Setting the wall clock back extends
// nothing. It is a local and optimistic look: false does not mean that a write
// will pass.
func (l *Lease) Expired(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended != nil || instantOf(now).since(l.sent) >= l.ttl
}

// Renew moves the expiry to the store's now + TTL. An error that matches
// [ErrLost] is final: the lease has ended and the token is worthless. After
// any other error the lease is as it was, for all that is known, until its
// deadline. Renew asks the store even if the local deadline has passed, but
// never revives a lease that has lapsed.
func (l *Lease) Renew(ctx context.Context) error {
	now := l.manager.now()
	if l.maxHold > 0 && now.since(l.granted) >= l.maxHold {
		l.end(l.heldTooLong())
	}
	if err := l.begin(); err != nil {
		return err
	}
	defer l.done()
	renewed, err := l.manager.store.Renew(ctx, []Claim{l.claim()})
	if err != nil {
		return err
	}
	if len(renewed) != 1 {
		return fmt.Errorf("sqlfence: the store answered %d renewals with %d results", 1, len(renewed))
	}
	return l.settle(now, renewed[0])
}

// Release gives the lease back; from then on the store refuses the token. The
// contexts of KeepAlive end first. A renewal in flight is stopped or awaited,
// and after Release has returned none can revive the lease.
//
// It does not heed the end of ctx, so that it works in the deferred calls of a
// program that is shutting down (CASES D9); it is bounded by 5 s of its own,
// half of which the store may spend on waiting for guarded transactions of the
// holder that are still open.
//
// The error matches [ErrLost] if the lease had been lost before, and
// [ErrBlocked] if such transactions are in the way; or it is the store's. If
// it does not match ErrLost, the lease is no longer renewed and lapses by
// itself, and Release can be tried again. After a success or a loss a second
// Release does nothing and returns nil.
func (l *Lease) Release(ctx context.Context) error {
	l.releasing.Lock()
	defer l.releasing.Unlock()
	if l.released {
		return nil
	}
	l.end(errReleased)
	if loss := l.loss(); refused(loss) {
		l.released = true // there is nothing to give back
		return loss
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	// The store refuses a renewal that arrives after the release, so this wait
	// only spares it the work. A store that hangs must not eat the whole bound.
	l.quiesce(releaseTimeout / 4)
	retireCtx, stop := context.WithTimeout(ctx, releaseTimeout/2)
	retired := l.retire(retireCtx)
	stop()
	err := l.manager.store.Release(ctx, l.claim(), releaseTimeout/2)
	switch {
	case err == nil:
		l.released = true
		l.manager.waiters.wake(l.token.Resource)
	case l.unsure && l.wasReleased(err):
		// The attempt before this one had arrived after all.
		l.released, err = true, nil
		l.manager.waiters.wake(l.token.Resource)
	case errors.Is(err, ErrLost):
		l.released = true
	default:
		l.unsure = true
		err = fmt.Errorf("sqlfence: release of %q: %w", l.token.Resource, err)
	}
	if retired != nil && !errors.Is(err, ErrLost) {
		err = errors.Join(err, retired)
	}
	l.set.report.released(l.token, err)
	return err
}

// wasReleased reports whether a refusal of a second release tells that the first
// one, whose answer was lost, has freed the resource: that, and nothing else,
// takes the next epoch without an owner. An epoch above it was granted after
// somebody has taken the next one; who that was can no longer be told, and is
// the same to us, who hold nothing. The next epoch with another owner is a
// takeover: our release came too late.
func (l *Lease) wasReleased(err error) bool {
	var loss *LossError
	if !errors.As(err, &loss) || !errors.Is(err, ErrNotOwner) {
		return false
	}
	next := l.token.Epoch + 1
	return loss.Epoch == next && loss.Holder == "" || loss.Epoch > next
}

// KeepAlive renews the lease in the background until ctx ends, the lease is
// lost, or it is released. The returned context carries the token, and
// whatever ctx carries. It ends with ctx; or, with a cause that matches
// [ErrLost] and tells why, when ownership ends: no later than [Lease.Deadline],
// also while the store cannot be reached.
//
// When ctx ends, the lease is no longer renewed and lapses unless it is
// released: a holder that is gone must not hold for ever (CASES D15).
func (l *Lease) KeepAlive(ctx context.Context) context.Context {
	kept, keep := l.keep(ctx)
	context.AfterFunc(kept, func() { l.manager.renewer.drop(l, keep) })
	return kept
}

// keep is one reason to renew a lease: it ends the context that depends on it.
type keep struct{ cancel context.CancelCauseFunc }

// keep renews the lease in the background until it ends or the keep is dropped.
func (l *Lease) keep(ctx context.Context) (context.Context, *keep) {
	kept, cancel := context.WithCancelCause(guard.With(ctx, l.token))
	k := &keep{cancel}
	l.manager.renewer.prepare()
	if err := l.manager.renewer.add(l, k); err != nil {
		l.end(err)
		cancel(err)
	}
	l.listen(kept)
	return kept, k
}

// end records why ownership ends, unless it has ended before, and ends the
// contexts that depend on it.
func (l *Lease) end(cause error) {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return
	}
	l.ended = cause
	report := l.set.report
	l.mu.Unlock()
	l.manager.grants.remove(l)
	if cause != errReleased && cause != errClosed { //nolint:errorlint // these two values
		report.lost(l.token, cause)
	}
	for _, k := range l.manager.renewer.remove(l) {
		k.cancel(cause)
	}
}

// loss returns why ownership ended; nil if it has not.
func (l *Lease) loss() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// begin counts a renewal in flight. The error is why there can be none.
func (l *Lease) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return l.ended
	}
	l.calls++
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	return nil
}

func (l *Lease) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.calls == 0 {
		close(l.idle)
		l.idle = nil
	}
}

// quiesce waits until no renewal is in flight, at most for bound. It is for
// leases that have ended, which begin no new ones.
func (l *Lease) quiesce(bound time.Duration) {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// settle takes the answer to a renewal that was sent at sent. Answers may come
// in any order: only a later request moves the deadline, and a loss is final.
func (l *Lease) settle(sent instant, r Renewed) error {
	if errors.Is(r.Err, ErrLost) {
		l.end(r.Err)
	}
	if r.Err != nil {
		return r.Err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return l.ended // too late: whoever depended on it was told
	}
	if !sent.mono.Before(l.sent.mono) {
		l.sent, l.expiry = sent, r.Expiry
	}
	return nil
}

// left returns how long the lease can be relied on, at most its TTL.
func (l *Lease) left(now instant) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ttl - now.since(l.sent)
}

func (l *Lease) claim() Claim { return Claim{Token: l.token, Owner: l.owner, TTL: l.ttl} }

func (l *Lease) heldTooLong() error {
	return fmt.Errorf("%w: %w: %q by %q for %v", ErrLost, ErrMaxHold, l.token.Resource, l.owner, l.maxHold)
}

// overdue is the loss at the local deadline. The failure is that of the last
// renewal; nil if none was answered.
func (l *Lease) overdue(failure error) error {
	if failure == nil {
		return fmt.Errorf("%w: %q by %q: no renewal was answered within its TTL %v",
			ErrLost, l.token.Resource, l.owner, l.ttl)
	}
	return fmt.Errorf("%w: %q by %q: no renewal succeeded within its TTL %v, the last failed: %w",
		ErrLost, l.token.Resource, l.owner, l.ttl, failure)
}

// refused reports whether the store itself said that the lease is lost.
func refused(err error) bool {
	return errors.Is(err, ErrNotOwner) || errors.Is(err, ErrLapsed) ||
		errors.Is(err, ErrEpochMismatch) || errors.Is(err, guard.ErrFenced)
}
