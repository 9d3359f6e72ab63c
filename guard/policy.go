package guard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// Policy says which writes need a token. The zero value guards every write
// whose context carries one and asks for none. A Policy is immutable and safe
// for concurrent use.
type Policy struct {
	tables      []tableName // nil: every table is listed
	bindings    []binding
	require     bool
	observe     bool
	untilExpiry bool
	audit       func(Audited)
}

// binding ties a table to resources: one, or all that begin with it.
type binding struct {
	table    tableName
	resource string
	prefix   bool
}

func (b binding) fits(t Token) bool {
	if b.prefix {
		return strings.HasPrefix(t.Resource, b.resource)
	}
	return t.Resource == b.resource
}

func (b binding) String() string {
	if b.prefix {
		return strconv.Quote(b.resource) + "*"
	}
	return strconv.Quote(b.resource)
}

// PolicyOption is an option of [NewPolicy].
type PolicyOption func(*Policy) error

// NewPolicy returns a policy. The error matches [ErrInvalidInput].
func NewPolicy(opts ...PolicyOption) (Policy, error) {
	var p Policy
	for _, opt := range opts {
		if err := opt(&p); err != nil {
			return Policy{}, err
		}
	}
	if p.require && p.tables == nil {
		return Policy{}, fmt.Errorf("%w: Require without Tables: list the tables whose writes need a token", ErrInvalidInput)
	}
	if p.tables != nil { // what is bound is listed
		for _, b := range p.bindings {
			p.tables = append(p.tables, b.table)
		}
	}
	return p, nil
}

// Tables limits the fence to writes to these tables, given as "table" or
// "schema.table". A write to another table passes unguarded even under a
// token; a write whose tables the text does not tell counts as a write to a
// listed one. A part that is more than letters, digits, _ and $ stands in quotes
// as in a statement: in "", in “ or in []. Names are compared without regard to
// case, in quotes too, on PostgreSQL by the 63 bytes that count there, and an
// unqualified name, here or in the statement, matches any schema, whatever the
// search_path: where in doubt, a table is listed. What a view, a trigger or a function writes is not seen; neither is,
// on PostgreSQL, that a table is a partition or an heir of a listed one: list those
// that statements name, or call [Protect] on the parent, which has the database refuse.
func Tables(names ...string) PolicyOption {
	return func(p *Policy) error {
		if len(names) == 0 {
			return fmt.Errorf("%w: Tables without a name", ErrInvalidInput)
		}
		for _, n := range names {
			t, err := parseTable(n)
			if err != nil {
				return err
			}
			p.tables = append(p.tables, t)
		}
		return nil
	}
}

// Bind ties a table to a resource: a token for another resource does not count
// for a write to it. A write under tokens of which none is for a resource of the
// table's is refused with [ErrUnguarded]; so is one, as soon as anything is bound,
// whose tables the text does not tell. Several bindings of one table: one of them
// suffices. Each token that the context carries must be valid as ever. With
// [Tables], a bound table is listed too.
func Bind(table, resource string) PolicyOption {
	return func(p *Policy) error { return p.bind(table, resource, false) }
}

// BindPrefix is [Bind] to all resources whose name begins with prefix.
func BindPrefix(table, prefix string) PolicyOption {
	return func(p *Policy) error { return p.bind(table, prefix, true) }
}

func (p *Policy) bind(table, resource string, prefix bool) error {
	if err := ValidateResource(resource); err != nil {
		return err
	}
	t, err := parseTable(table)
	if err != nil {
		return err
	}
	p.bindings = append(p.bindings, binding{t, resource, prefix})
	return nil
}

// Observe registers a token above the mark on first sight, as by [Fence.Advance]:
// for tokens issued elsewhere, without a call for each. The first write with it on
// each database handle costs a further round trip, on PostgreSQL and MySQL inside
// a transaction a connection of its own. A token that nobody has granted then
// counts too: whoever can write a greater number fences everybody else.
func Observe() PolicyOption {
	return func(p *Policy) error {
		p.observe = true
		return nil
	}
}

// Observes reports whether a higher token registers itself.
func (p Policy) Observes() bool { return p.observe }

// Require refuses, with [ErrUnguarded], a write to a listed table whose
// context carries no token and was not made by [Without]. It needs [Tables].
// Definitions (CREATE, ALTER, DROP and their like) pass, so that migrations,
// which carry no token, do.
func Require() PolicyOption {
	return func(p *Policy) error {
		p.require = true
		return nil
	}
}

// UntilExpiry refuses a write, with [ErrExpired], from the moment that its lease
// has expired, by the clock of the database and as of the check, also if nobody
// has taken over; without it the owner may write until somebody does. The lease
// must live in the guarded database: where it is not found, the write is refused
// with [ErrSetup]. Tokens issued elsewhere have no lease and are refused. On MySQL,
// MariaDB and SQLite every guarded write then runs behind a check in its transaction:
// a few statements for each instead of one.
//
// The expiry is read without a lock, so that renewals do not wait: a transaction
// that outlives the expiry after its last write commits. Under REPEATABLE READ (the
// default of MySQL and MariaDB) and SERIALIZABLE it is that of the transaction's
// snapshot, and a long transaction may be refused although its lease was renewed.
func UntilExpiry() PolicyOption {
	return func(p *Policy) error {
		p.untilExpiry = true
		return nil
	}
}

// EndsAtExpiry reports whether writes are refused from the expiry on.
func (p Policy) EndsAtExpiry() bool { return p.untilExpiry }

// IsZero reports whether p is the zero Policy: every write that carries a
// token is guarded, and none needs one.
func (p Policy) IsZero() bool {
	return p.tables == nil && p.bindings == nil && !p.require && !p.observe && !p.untilExpiry && p.audit == nil
}

// Requires reports whether a write without a token can be refused at all.
func (p Policy) Requires() bool { return p.require }

// Guards reports whether the statement, executed under a token, is to be
// guarded. A statement that writes nothing is not.
func (p Policy) Guards(plan *sqlgen.Plan) bool {
	if !plan.Writes() {
		return false
	}
	_, listed := p.listed(plan)
	return listed
}

// CheckUnguarded returns nil if the statement may be executed without a token,
// and a *[UnguardedError] otherwise.
func (p Policy) CheckUnguarded(plan *sqlgen.Plan) error {
	if !p.require || !plan.Writes() {
		return nil
	}
	// Migrations carry no token, and definitions write no row: CREATE, ALTER
	// and their like pass (DESIGN §6: goose, golang-migrate).
	if plan.Kind == sqlgen.KindDefinition && len(plan.Tables) == 0 {
		return nil
	}
	if table, listed := p.listed(plan); listed {
		return &UnguardedError{Table: table}
	}
	return nil
}

// CheckBound returns nil if the tokens count for the tables that the statement
// writes, and a *[UnguardedError] otherwise.
func (p Policy) CheckBound(plan *sqlgen.Plan, tokens []Token) error {
	if p.bindings == nil || !plan.Writes() {
		return nil
	}
	if len(plan.Tables) == 0 {
		return &UnguardedError{Unbound: tokens}
	}
	for _, t := range plan.Tables {
		var bound []string
		counts := false
		for _, b := range p.bindings {
			if !b.table.matches(plan.Engine, t) {
				continue
			}
			bound = append(bound, b.String())
			for _, token := range tokens {
				counts = counts || b.fits(token)
			}
		}
		if bound != nil && !counts {
			return &UnguardedError{Table: t.String(), Unbound: tokens, Bound: bound}
		}
	}
	return nil
}

// listed returns the first listed table that the plan writes; "" and true
// where the text does not tell which tables it writes.
func (p Policy) listed(plan *sqlgen.Plan) (string, bool) {
	if p.tables == nil || len(plan.Tables) == 0 {
		return "", true
	}
	for _, t := range plan.Tables {
		for _, l := range p.tables {
			if l.matches(plan.Engine, t) {
				return t.String(), true
			}
		}
	}
	return "", false
}
