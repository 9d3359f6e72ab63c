package lease

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/guard"
)

// DefaultTTL is the TTL where no option sets one.
const DefaultTTL = 30 * time.Second

// Option is a setting. Given to [NewManager] it holds for all leases of the
// manager; given to Acquire, TryAcquire or Hold, for that lease.
type Option func(*settings)

type settings struct {
	owner   string
	ttl     time.Duration
	bound   time.Duration // of an Acquire
	bounded bool
	reentry Reentry
	maxHold time.Duration
	limited bool // by maxHold

	fence    *registered // nil: the store's own mark is the one
	evict    time.Duration
	evicting bool
	warning  time.Duration // before the deadline; 0: none
	warn     func(*Lease)
	stepDown func(*Lease)
	report   *report
}

// TTL sets how long a lease lasts from its grant and from each renewal, by the
// store's clock: from [MinTTL] to [MaxTTL], [DefaultTTL] if not set. The
// package comment says how to choose one.
func TTL(d time.Duration) Option { return func(s *settings) { s.ttl = d } }

// Owner sets the identity of the holder, 1 to 255 bytes of UTF-8. Two live
// clients must not share one. If not set, it is made of the host, the process
// and a random number, and no other manager has it.
func Owner(name string) Option { return func(s *settings) { s.owner = name } }

// Wait bounds how long Acquire and Hold wait for the resource, after which
// they return an error that matches [ErrTimeout]; with 0 they try once. For
// TryAcquire it bounds the wait for open guarded transactions of the former
// owner alone. The bound holds to within half a second, except that a store
// that does not answer is given at least 5 s.
func Wait(bound time.Duration) Option {
	return func(s *settings) { s.bound, s.bounded = bound, true }
}

// OnReentry says what an Acquire does if its own owner holds the resource
// already; [ReentryNewEpoch] if not set.
func OnReentry(r Reentry) Option { return func(s *settings) { s.reentry = r } }

// MaxHold bounds how long a lease is renewed, from its grant: a wedged job
// cannot keep it alive for ever. When d has passed, contexts of KeepAlive and
// Hold end with a cause that matches [ErrMaxHold] and [ErrLost], and the lease
// lapses at most one TTL later.
func MaxHold(d time.Duration) Option {
	return func(s *settings) { s.maxHold, s.limited = d, true }
}

// WarnBefore calls warn, in a goroutine of its own, when a lease that is kept
// alive has less than d left until its deadline because renewals fail: the time
// to bring work to an end. Once for each such stretch; d is above 0 and below
// the TTL. A renewal is due every TTL/3, so with more than two thirds of the TTL
// it warns before each.
func WarnBefore(d time.Duration, warn func(*Lease)) Option {
	return func(s *settings) { s.warning, s.warn = d, warn }
}

// with returns the settings changed by the options. The error matches
// [ErrInvalidInput].
func (s settings) with(opts []Option) (settings, error) {
	if len(opts) > 0 {
		own := *s.report // what the options change is not the manager's
		s.report = &own
	}
	for _, opt := range opts {
		opt(&s)
	}
	if err := guard.ValidateOwner(s.owner); err != nil {
		return s, err
	}
	if err := ValidateTTL(s.ttl); err != nil {
		return s, err
	}
	if s.bounded && s.bound < 0 {
		return s, fmt.Errorf("%w: negative wait %v", ErrInvalidInput, s.bound)
	}
	if s.reentry > ReentryExtend {
		return s, fmt.Errorf("%w: unknown re-entry policy %d", ErrInvalidInput, s.reentry)
	}
	if s.evicting && s.evict < 0 {
		return s, fmt.Errorf("%w: EvictAfter %v is negative", ErrInvalidInput, s.evict)
	}
	if s.warn != nil && (s.warning <= 0 || s.warning >= s.ttl) {
		return s, fmt.Errorf("%w: a warning %v before the deadline of a TTL of %v", ErrInvalidInput, s.warning, s.ttl)
	}
	if s.limited && s.maxHold <= 0 {
		return s, fmt.Errorf("%w: MaxHold %v is not above 0", ErrInvalidInput, s.maxHold)
	}
	return s, nil
}

// uniqueOwner names this process for the humans who read it in a denial, and
// adds 128 random bits, because pids and container names come back.
func uniqueOwner() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	if len(host) > 64 {
		host = host[:64]
	}
	host = strings.ReplaceAll(strings.ToValidUTF8(host, ""), "\x00", "")
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text())
}
