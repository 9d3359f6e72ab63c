package redis

import (
	"fmt"
	"strconv"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// answer is what a script returned: texts, because its numbers are doubles.
type answer struct {
	values []any
	bad    bool // something was not there, or not what it should be
}

func fields(values []any) *answer { return &answer{values: values} }

func (a *answer) text(i int) string {
	if i >= len(a.values) {
		a.bad = true
		return ""
	}
	s, ok := a.values[i].(string)
	if !ok {
		a.bad = true
	}
	return s
}

func (a *answer) int(i int) int64 {
	n, err := strconv.ParseInt(a.text(i), 10, 64)
	if err != nil {
		a.bad = true
	}
	return n
}

// loss returns the error of a renewal or release that was refused.
func loss(op string, c lease.Claim, values []any) error {
	a := fields(values)
	outcome := a.text(0)
	e := &lease.LossError{Op: op, Claim: c, Holder: a.text(1), Epoch: a.int(2), HighWater: a.int(3)}
	switch {
	case a.bad:
		return unexpected(op, values)
	case outcome == "not_owner":
		e.Cause = lease.ErrNotOwner
	case outcome == "lapsed":
		e.Cause = lease.ErrLapsed
	case outcome == "epoch_mismatch":
		e.Cause = lease.ErrEpochMismatch
	default:
		return unexpected(op, values)
	}
	return e
}

// unexpected is the error of an answer that our scripts do not give. It never
// counts as success.
func unexpected(op string, values []any) error {
	return &guard.SetupError{
		Problem: fmt.Sprintf("unexpected answer of %s: %.200v", op, values),
		Remedy:  "is something else written to the keys of the store?",
	}
}
