package guard

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The causes of a wait that ended in vain, for errors.Is.
var (
	// ErrBlocked: a mark could not be moved, because guarded transactions under an
	// older token were still open when the wait's bound ended; see *[BlockedError].
	ErrBlocked = errors.New("sqlfence: blocked by open guarded transactions")

	// ErrTimeout: a bounded wait was spent.
	ErrTimeout = errors.New("sqlfence: wait bound spent")
)

// Blocker is a session or prepared transaction that holds the fence.
type Blocker struct {
	PID         int64         // the server's process or thread; 0 for a prepared transaction
	Application string        // what the session calls itself, where the server tells
	Age         time.Duration // of its transaction; 0 where the server does not tell
	Prepared    string        // the global identifier of a prepared transaction, or ""
}

func (b Blocker) String() string {
	if b.Prepared != "" {
		return fmt.Sprintf("prepared transaction %q", b.Prepared)
	}
	var known []string
	if b.Application != "" {
		known = append(known, b.Application)
	}
	if b.Age > 0 {
		known = append(known, fmt.Sprintf("open for %v", b.Age))
	}
	if len(known) == 0 {
		return fmt.Sprintf("pid %d", b.PID)
	}
	return fmt.Sprintf("pid %d (%s)", b.PID, strings.Join(known, ", "))
}

// BlockedError reports a resource that could not change hands in time because
// guarded transactions are open. It matches [ErrBlocked] and [ErrTimeout].
type BlockedError struct {
	Resource string
	Wait     time.Duration // the bound that was spent
	Blockers []Blocker     // as far as the server tells
	Err      error         // the server's error, or nil
}

func (e *BlockedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sqlfence: %q is blocked by open guarded transactions after %v", e.Resource, e.Wait)
	for i, k := range e.Blockers {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + k.String())
	}
	if len(e.Blockers) == 0 && e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Is makes the error match [ErrBlocked] and [ErrTimeout].
func (e *BlockedError) Is(target error) bool { return target == ErrBlocked || target == ErrTimeout }

// Unwrap returns the server's error.
func (e *BlockedError) Unwrap() error { return e.Err }
