package guard

import (
	"fmt"
	"strings"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// Policy says which writes need a token. The zero value guards every write
// whose context carries one and asks for none. A Policy is immutable and safe
// for concurrent use.
type Policy struct {
	tables  []tableName // nil: every table is listed
	require bool
}

// tableName is a listed table, folded to lower case.
type tableName struct{ schema, name string }

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
	return p, nil
}

// Tables limits the fence to writes to these tables, given as "table" or
// "schema.table". A write to another table passes unguarded even under a
// token; a write whose tables the text does not tell counts as a write to a
// listed one. Names are compared without regard to case, and an unqualified
// name, here or in the statement, matches any schema: where in doubt, a table
// is listed. What a view, a trigger or a function writes is not seen.
func Tables(names ...string) PolicyOption {
	return func(p *Policy) error {
		if len(names) == 0 {
			return fmt.Errorf("%w: Tables without a name", ErrInvalidInput)
		}
		for _, n := range names {
			schema, name, qualified := strings.Cut(n, ".")
			if !qualified {
				schema, name = "", n
			}
			if name == "" || (qualified && schema == "") || strings.Contains(name, ".") {
				return fmt.Errorf("%w: table %q is not of the form table or schema.table", ErrInvalidInput, n)
			}
			p.tables = append(p.tables, tableName{fold(schema), fold(name)})
		}
		return nil
	}
}

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

// IsZero reports whether p is the zero Policy: every write that carries a
// token is guarded, and none needs one.
func (p Policy) IsZero() bool { return p.tables == nil && !p.require }

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

// listed returns the first listed table that the plan writes; "" and true
// where the text does not tell which tables it writes.
func (p Policy) listed(plan *sqlgen.Plan) (string, bool) {
	if p.tables == nil || len(plan.Tables) == 0 {
		return "", true
	}
	for _, t := range plan.Tables {
		schema, name := fold(t.Schema), fold(t.Name)
		for _, l := range p.tables {
			if l.name == name && (l.schema == "" || schema == "" || l.schema == schema) {
				return t.String(), true
			}
		}
	}
	return "", false
}

func fold(s string) string { return strings.ToLower(s) }
