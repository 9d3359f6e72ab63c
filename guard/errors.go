package guard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The causes, for errors.Is. Every error of this module that has one of these
// causes matches its sentinel, through whatever an ORM wraps around it.
var (
	// ErrLost is the family of all losses of ownership: ErrFenced here, and
	// lease.ErrNotOwner, lease.ErrLapsed and lease.ErrEpochMismatch. Stop
	// working, acquire again, read again; a retry with the same token never
	// helps.
	ErrLost = errors.New("sqlfence: ownership lost")

	// ErrFenced: storage refused the write because the token is older than
	// the high-water mark, or has the mark's epoch and another grant.
	ErrFenced = errors.New("sqlfence: fenced")

	// ErrExpired: the policy ends ownership at the expiry, and the lease has
	// expired. It is a refusal by the fence, so the error matches ErrFenced and
	// ErrLost too.
	ErrExpired = errors.New("sqlfence: lease expired")

	// ErrUnregistered: storage does not know the token: its epoch is above
	// the mark, or there is no mark. The grant was never committed, or the
	// token comes from elsewhere and was never advanced.
	ErrUnregistered = errors.New("sqlfence: token not registered in this storage")

	// ErrUnsupported: the statement cannot be guarded, so it was not sent.
	ErrUnsupported = errors.New("sqlfence: statement cannot be guarded")

	// ErrUnguarded: the policy requires a token for this write, and the
	// context carries none.
	ErrUnguarded = errors.New("sqlfence: unguarded write")

	// ErrInvalidInput: a resource, owner, token, TTL or option that can never
	// be right.
	ErrInvalidInput = errors.New("sqlfence: invalid input")

	// ErrSetup: the database is not ready for fencing: schema missing or of
	// another version, or a privilege missing.
	ErrSetup = errors.New("sqlfence: database not set up")
)

// FencedError reports a refused stale write. It matches [ErrFenced] and
// [ErrLost], and unwraps to the server's own error where there is one.
type FencedError struct {
	Token     Token // the token that was presented
	HighWater int64 // the storage's mark
	Err       error // the server's error, or nil
}

func (e *FencedError) Error() string {
	if e.HighWater == e.Token.Epoch {
		return fmt.Sprintf("sqlfence: fenced: resource %q: presented epoch %d, grant %d; high-water mark %d belongs to another grant",
			e.Token.Resource, e.Token.Epoch, e.Token.Grant, e.HighWater)
	}
	return fmt.Sprintf("sqlfence: fenced: resource %q: presented epoch %d, high-water mark %d",
		e.Token.Resource, e.Token.Epoch, e.HighWater)
}

// Is makes the error match [ErrFenced] and [ErrLost].
func (e *FencedError) Is(target error) bool { return target == ErrFenced || target == ErrLost }

// Unwrap returns the server's error.
func (e *FencedError) Unwrap() error { return e.Err }

// ExpiredError reports a write whose lease has expired, under [UntilExpiry]. It
// matches [ErrExpired], [ErrFenced] and [ErrLost], and unwraps to the server's own
// error where there is one.
type ExpiredError struct {
	Token Token // the token that was presented
	Err   error // the server's error, or nil
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("sqlfence: expired: resource %q: presented epoch %d: the lease has expired", e.Token.Resource, e.Token.Epoch)
}

// Is makes the error match [ErrExpired], [ErrFenced] and [ErrLost].
func (e *ExpiredError) Is(target error) bool {
	return target == ErrExpired || target == ErrFenced || target == ErrLost
}

// Unwrap returns the server's error.
func (e *ExpiredError) Unwrap() error { return e.Err }

// UnregisteredError reports a token that storage does not know. It matches
// [ErrUnregistered].
type UnregisteredError struct {
	Token     Token // the token that was presented
	HighWater int64 // the storage's mark, 0 where there is none
	Err       error // the server's error, or nil
}

func (e *UnregisteredError) Error() string {
	found := "no high-water mark"
	if e.HighWater != 0 {
		found = "high-water mark " + strconv.FormatInt(e.HighWater, 10)
	}
	return fmt.Sprintf("sqlfence: unregistered: resource %q: presented epoch %d, found %s: "+
		"the grant was never committed here, or the token comes from elsewhere: "+
		"give lease.NewManager the option lease.WithFence for this database, or call Fence.Advance for each token before writing with it",
		e.Token.Resource, e.Token.Epoch, found)
}

// Is makes the error match [ErrUnregistered].
func (e *UnregisteredError) Is(target error) bool { return target == ErrUnregistered }

// Unwrap returns the server's error.
func (e *UnregisteredError) Unwrap() error { return e.Err }

// UnsupportedError reports a statement that was refused because it cannot be
// guarded. It matches [ErrUnsupported]. Nothing was sent to the server, unless
// Err holds the server's own refusal of the guarded statement.
type UnsupportedError struct {
	Kind   string // what the statement is, such as "COPY" or "several statements"
	Reason string // why it cannot be guarded
	Advice string // what to do instead
	Err    error  // the server's error, or nil
}

func (e *UnsupportedError) Error() string {
	s := "sqlfence: cannot guard " + e.Kind + ": " + e.Reason
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

// Is makes the error match [ErrUnsupported].
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Unwrap returns the server's error.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// UnguardedError reports a write without a token to a table whose policy
// requires one, or under tokens that do not count for it. It matches
// [ErrUnguarded]. Nothing was sent to the server.
type UnguardedError struct {
	Table   string   // the listed table, or "" where the text does not tell
	Unbound []Token  // the tokens that were presented and do not count (see Bind)
	Bound   []string // the resources that the table is bound to; in quotes, those of a prefix with * behind
}

func (e *UnguardedError) Error() string {
	if len(e.Unbound) > 0 {
		var names []string
		for _, t := range e.Unbound {
			names = append(names, strconv.Quote(t.Resource))
		}
		table := e.Table
		if table == "" {
			table = "tables that the text does not tell"
		}
		to := "bound resources"
		if len(e.Bound) > 0 {
			to = strings.Join(e.Bound, ", ")
		}
		return fmt.Sprintf("sqlfence: unguarded write to %s: the policy binds it to %s, and the token is for %s; "+
			"write under a token for what it is bound to, or change the policy (guard.Bind)", table, to, strings.Join(names, ", "))
	}
	if e.Table == "" {
		return "sqlfence: unguarded write to tables that the text does not tell: the policy requires a token, and the context carries none; " +
			"annotate the context with guard.With, mark the exception with guard.Without, send several statements one at a time, " +
			"or run migrations over a handle without the policy"
	}
	return fmt.Sprintf("sqlfence: unguarded write to %s: the policy requires a token, and the context carries none; "+
		"annotate the context with guard.With, or mark the exception with guard.Without", e.Table)
}

// Is makes the error match [ErrUnguarded].
func (e *UnguardedError) Is(target error) bool { return target == ErrUnguarded }

// SetupError reports a database that is not ready for fencing. It matches
// [ErrSetup]. The write was refused.
type SetupError struct {
	Problem string // what is wrong
	Remedy  string // the call or the GRANT that mends it
	Err     error  // the server's error, or nil
}

func (e *SetupError) Error() string {
	s := "sqlfence: set-up: " + e.Problem
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes the error match [ErrSetup].
func (e *SetupError) Is(target error) bool { return target == ErrSetup }

// Unwrap returns the server's error.
func (e *SetupError) Unwrap() error { return e.Err }

// JudgeLease returns what [UntilExpiry] has to say of a token that the fence lets
// pass: nil if its lease is in the database and runs, a *[SetupError] if it is not
// there, and an *[ExpiredError] if it has expired.
func JudgeLease(t Token, found, runs bool) error {
	switch {
	case !found:
		return noLease(nil)
	case !runs:
		return &ExpiredError{Token: t}
	}
	return nil
}

// Judge compares a presented token with the mark (epoch and grant; mark 0
// means that there is none) and returns nil, a *[FencedError] or an
// *[UnregisteredError]. It is the one place where the predicate of the fence
// is written in Go.
func Judge(t Token, mark, grant int64) error {
	switch {
	case mark <= 0 || t.Epoch > mark:
		return &UnregisteredError{Token: t, HighWater: max(mark, 0)}
	case t.Epoch < mark || t.Grant != grant:
		return &FencedError{Token: t, HighWater: mark}
	}
	return nil
}
