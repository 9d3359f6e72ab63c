package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/guard"
)

// The bounds of a TTL.
const (
	MinTTL = time.Millisecond
	MaxTTL = 10 * 365 * 24 * time.Hour
)

// Store keeps leases. It is implemented by the sub-packages, one for each kind
// of server; leasetest holds an implementation to the contract.
//
// All operations are linearizable and atomic. Time is the store's: expiry is
// judged by the server's clock at the moment of the access, and no operation
// takes a client's time. An implementation is safe for concurrent use.
//
// An operation returns soon after its context ends, and if it returns the
// context's error, nothing of it takes effect later: what was already sent is
// rolled back or stopped. Only where the server's answer was lost may it have
// taken effect before.
type Store interface {
	// Acquire makes one attempt. A FREE or LAPSED resource becomes held by
	// req.Owner under a new epoch; a held one is a *HeldError and nothing is
	// written. It does not wait for a live holder; it waits at most req.Wait
	// for guarded transactions of the former owner that are still open, then
	// returns a *BlockedError.
	Acquire(ctx context.Context, req AcquireRequest) (Granted, error)

	// Renew moves the expiry of each claim to the server's now + its TTL. The
	// result has one entry per claim, in the claims' order; the error is for a
	// failure of the whole request, in which case nothing is known of any. A
	// claim that is invalid or whose row is locked fails alone, in its entry:
	// no claim of a batch delays another. A claim that comes alone may wait
	// for its row.
	Renew(ctx context.Context, claims []Claim) ([]Renewed, error)

	// Release makes the resource FREE and moves epoch and mark, so that the
	// claim's token is refused from then on. It waits at most wait for the
	// owner's own open guarded transactions.
	Release(ctx context.Context, claim Claim, wait time.Duration) error

	// Inspect returns the state of a resource without waiting for any lock. A
	// resource never seen is Free with epoch and mark 0.
	Inspect(ctx context.Context, resource string) (State, error)
}

// Watcher is implemented by stores that can tell of releases by anybody: postgres
// and redis. Without it a waiter polls.
type Watcher interface {
	// Watch calls wake soon after each release of the resource, and whenever
	// one may have been missed, until stop is called. wake does not block, and
	// may be called for no reason. live reports whether releases are told of at
	// the moment; it is nil if they never are.
	Watch(resource string, wake func()) (live func() bool, stop func())
}

// Batcher is implemented by stores to which a request costs much and one more lease
// in it little: sqlite, where all of a request wait for one lock.
type Batcher interface {
	// Batch returns how many leases a manager renews by one request before it makes
	// a second one.
	Batch() int
}

// Reserver is implemented by stores on a connection pool that the program uses
// too: postgres, mysql, sqlite. Renewals must not wait until its transactions leave a
// connection over (CASES D11).
type Reserver interface {
	// Reserve returns what renews on a connection of its own, which it takes
	// before ctx ends or at a later Renew; nil if the pool has no bound, or none
	// to spare. It is called when a manager begins to keep leases alive.
	Reserve(ctx context.Context) Reserve
}

// Reserve renews leases on a connection that is kept for that. Its Renew is that
// of [Store], one call at a time.
type Reserve interface {
	Renew(ctx context.Context, claims []Claim) ([]Renewed, error)
	// Close gives the connection back, after a Renew at work.
	Close()
}

// AcquireRequest is what Store.Acquire is asked for.
type AcquireRequest struct {
	Resource string
	Owner    string
	TTL      time.Duration // MinTTL to MaxTTL, counted from the grant
	Wait     time.Duration // bound of the wait for open guarded transactions; 0 means do not wait
	Reentry  Reentry       // what happens if Owner already holds the resource
	MinEpoch int64         // the least epoch of a new grant; a kept token (ReentryExtend) below it is replaced
}

// Validate returns an error that matches ErrInvalidInput, or nil.
func (r AcquireRequest) Validate() error {
	if err := guard.ValidateResource(r.Resource); err != nil {
		return err
	}
	if err := guard.ValidateOwner(r.Owner); err != nil {
		return err
	}
	if r.Wait < 0 {
		return fmt.Errorf("%w: negative wait %v", ErrInvalidInput, r.Wait)
	}
	if r.Reentry > ReentryExtend {
		return fmt.Errorf("%w: unknown re-entry policy %d", ErrInvalidInput, r.Reentry)
	}
	if r.MinEpoch < 0 {
		return fmt.Errorf("%w: negative least epoch %d", ErrInvalidInput, r.MinEpoch)
	}
	return ValidateTTL(r.TTL)
}

// ValidateTTL returns an error that matches ErrInvalidInput unless
// MinTTL <= ttl <= MaxTTL.
func ValidateTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("%w: TTL %v is not between %v and %v", ErrInvalidInput, ttl, MinTTL, MaxTTL)
	}
	return nil
}

// Reentry says what an Acquire by the present holder's own name does.
type Reentry uint8

// The re-entry policies.
const (
	// ReentryNewEpoch grants a new epoch, so that a restarted process that
	// reuses its owner name fences its dead predecessor. The default.
	ReentryNewEpoch Reentry = iota
	// ReentryRefuse treats the own name like anybody else's: a *HeldError.
	ReentryRefuse
	// ReentryExtend keeps the token and moves the expiry, unless the lease has
	// lapsed or the mark has moved past it: then the token is a new one.
	// Weaker: two processes that share an owner name hold the same token.
	ReentryExtend
)

func (r Reentry) String() string {
	switch r {
	case ReentryNewEpoch:
		return "new"
	case ReentryRefuse:
		return "refuse"
	case ReentryExtend:
		return "extend"
	}
	return fmt.Sprintf("re-entry policy %d", uint8(r))
}

// Granted is the outcome of an Acquire.
type Granted struct {
	Token  guard.Token
	Expiry time.Time     // an instant of the server's clock, in UTC
	TTL    time.Duration // what was left at the grant
}

// Claim is a holder's claim to a lease: what Renew and Release present.
type Claim struct {
	Token guard.Token
	Owner string
	TTL   time.Duration // what Renew asks for; not read by Release
}

// Validate returns an error that matches ErrInvalidInput if nobody could hold
// such a claim, and nil otherwise. It does not look at the TTL, which matters
// to Renew alone; see ValidateTTL.
func (c Claim) Validate() error {
	if err := c.Token.Validate(); err != nil {
		return err
	}
	return guard.ValidateOwner(c.Owner)
}

// Renewed is the outcome of the renewal of one claim.
type Renewed struct {
	Expiry time.Time // an instant of the server's clock, in UTC
	Err    error     // nil, or a *LossError, or a passing failure of this claim alone
}

// Status is a resource's place in its life.
type Status uint8

// The statuses.
const (
	Free   Status = iota // nobody holds it
	Held                 // an owner holds it and the expiry has not passed
	Lapsed               // the expiry has passed and nobody has taken over
)

func (s Status) String() string {
	switch s {
	case Free:
		return "free"
	case Held:
		return "held"
	case Lapsed:
		return "lapsed"
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// State is what Inspect finds. It is advisory: it may be old when it arrives.
type State struct {
	Resource  string
	Status    Status
	Owner     string        // the holder, or the last one where Lapsed; "" where Free
	Epoch     int64         // the newest epoch minted for the resource; 0 if never seen
	HighWater int64         // the mark of the guarded storage; 0 if never seen
	Expiry    time.Time     // an instant of the server's clock, in UTC; zero where Free
	Remaining time.Duration // until the expiry, by the server's clock; 0 unless Held
}

// The causes of lease operations, for errors.Is.
var (
	// ErrNotAcquirable: somebody holds the resource; see *HeldError.
	ErrNotAcquirable = errors.New("sqlfence: resource is held")
	// ErrTimeout is guard.ErrTimeout: a bounded wait was spent.
	ErrTimeout = guard.ErrTimeout
	// ErrBlocked is guard.ErrBlocked: the lease is free, but guarded transactions
	// of its former owner were still open when the bound ended; see *BlockedError.
	ErrBlocked = guard.ErrBlocked
	// ErrNotOwner: the resource is unknown, free or another's.
	ErrNotOwner = errors.New("sqlfence: not the owner")
	// ErrLapsed: the lease had expired before the request arrived.
	ErrLapsed = errors.New("sqlfence: lease lapsed")
	// ErrEpochMismatch: the owner holds the resource under another epoch or
	// grant, or the mark has moved past it.
	ErrEpochMismatch = errors.New("sqlfence: epoch or grant mismatch")
	// ErrExhausted: the epoch is at MaxInt64 and is never wrapped.
	ErrExhausted = errors.New("sqlfence: epochs exhausted")
	// ErrLost is guard.ErrLost: the family of ErrNotOwner, ErrLapsed,
	// ErrEpochMismatch and guard.ErrFenced.
	ErrLost = guard.ErrLost
	// ErrInvalidInput is guard.ErrInvalidInput.
	ErrInvalidInput = guard.ErrInvalidInput
)

// HeldError denies an Acquire: somebody holds the resource. It matches
// ErrNotAcquirable.
type HeldError struct {
	Resource  string
	Holder    string
	Remaining time.Duration // of the holder's TTL, by the server's clock
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("sqlfence: %q is held by %q for another %v", e.Resource, e.Holder, e.Remaining)
}

// Is makes the error match ErrNotAcquirable.
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquirable }

// Blocker is [guard.Blocker]: a session or prepared transaction that holds the fence.
type Blocker = guard.Blocker

// BlockedError is [guard.BlockedError]: a resource that could not change hands in
// time because guarded transactions are open. It matches [ErrBlocked] and
// [ErrTimeout].
type BlockedError = guard.BlockedError

// LossError refuses a Renew or Release. It matches its Cause and ErrLost.
type LossError struct {
	Op        string // "renew" or "release"
	Claim     Claim  // what was presented
	Cause     error  // ErrNotOwner, ErrLapsed or ErrEpochMismatch
	Holder    string // the owner found, or ""
	Epoch     int64  // the epoch found, 0 if the resource is unknown
	HighWater int64  // the mark found
}

func (e *LossError) Error() string {
	found := "it is free"
	if e.Epoch == 0 {
		found = "it is unknown"
	} else if e.Holder != "" {
		found = fmt.Sprintf("found owner %q", e.Holder)
	}
	return fmt.Sprintf("%v: %s of %q by %q with epoch %d, grant %d: %s, epoch %d, high-water mark %d",
		e.Cause, e.Op, e.Claim.Token.Resource, e.Claim.Owner, e.Claim.Token.Epoch, e.Claim.Token.Grant, found, e.Epoch, e.HighWater)
}

// Is makes the error match ErrLost.
func (e *LossError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the cause.
func (e *LossError) Unwrap() error { return e.Cause }
