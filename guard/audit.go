package guard

import (
	"runtime"
	"strings"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// Audited is what [Audit] reports of one execution of a statement.
type Audited struct {
	// Err is what the program would have been told: an *[UnguardedError], or an
	// *[UnsupportedError]; nil for a write without a token that no policy forbids.
	Err error
	// Plan is what is known of the statement, its text included.
	Plan *sqlgen.Plan
	// Stack is who sent it, innermost first: without the frames of database/sql
	// and of this module, so that the first is the program's own or its ORM's.
	Stack []runtime.Frame
}

// Audit reports to the function instead of refusing, for the time in which a
// program is being fitted with tokens. What [Require] would refuse is executed
// unguarded, and so is, under a token, what cannot be guarded ([ErrUnsupported]):
// such statements get past the fence meanwhile. What [Bind] would refuse is
// guarded by the tokens at hand. Writes without a token that the policy allows
// are reported too; reads, definitions and what [Without] marks are not.
//
// What can be guarded is guarded as ever, and before a statement under a token that
// cannot be, the token is checked: a stale one is refused with [ErrFenced], also under
// Audit. In a transaction it then stays valid until the end; outside of one, a
// takeover that comes between the check and the statement is not noticed. Refused is
// also a token that can never be right, a database that is not set up, and what the
// server itself refuses. Not checked, since nothing is written by them as far as the
// text tells, are the statements that begin and end a transaction of XA.
//
// The function is called before the statement is sent, by the goroutine that sends
// it, and by many at once; it must not use the connection. It costs a look at the
// stack for each report.
func Audit(report func(Audited)) PolicyOption {
	return func(p *Policy) error {
		p.audit = report
		return nil
	}
}

// Audits reports whether what would be refused is executed and reported.
func (p Policy) Audits() bool { return p.audit != nil }

// Watches reports whether statements without a token are of interest.
func (p Policy) Watches() bool { return p.require || p.audit != nil }

// Report tells the function of [Audit] of a statement that is about to be
// executed although of err, and returns nil; without such a function it returns
// err. A nil err is that of a write without a token that the policy allows, of
// which only those to listed tables are told.
func (p Policy) Report(plan *sqlgen.Plan, err error) error {
	if p.audit == nil || err == nil && (!p.Guards(plan) || plan.Kind == sqlgen.KindDefinition) {
		return err
	}
	p.audit(Audited{Err: err, Plan: plan, Stack: callers()})
	return nil
}

// callers returns the stack without what lies between the program and the database.
func callers() []runtime.Frame {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var stack []runtime.Frame
	for {
		f, more := frames.Next()
		if len(stack) > 0 || !between(f.Function) {
			stack = append(stack, f)
		}
		if !more {
			return stack
		}
	}
}

// between reports whether a function is of database/sql or lies under it.
func between(function string) bool {
	for _, p := range []string{
		"database/sql.", "github.com/ngrok/sqlmw.", "github.com/sqlfence/sqlfence/guard.",
		"github.com/sqlfence/sqlfence/driver.", "github.com/sqlfence/sqlfence/driver/postgres.",
		"github.com/sqlfence/sqlfence/driver/sqlite.", "github.com/sqlfence/sqlfence/driver/mysql.",
	} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}
