package sqlgen

import (
	"fmt"
	"strings"
)

// SchemaVersion is the version of the schema that [Schema] creates. It grows
// with every change of the schema, on all engines together.
const SchemaVersion = 1

// fence is what one engine brings: the schema, and the texts that guard and
// the lease stores send. The files fence_<engine>.go each hold one. db is the
// qualifier of the names ([Database]), quoted and with its dot, or "".
type fence struct {
	schema  string                        // see Schema
	version func(db string) string        // see VersionSQL
	check   func(n int, db string) string // see CheckSQL; n >= 1
	mark    string                        // see MarkSQL
	advance string                        // see AdvanceSQL
	grants  func(role string) string
}

// fences holds the fence of each engine.
var fences = [...]*fence{
	PostgreSQL: &postgresFence,
	SQLite:     &sqliteFence,
	MySQL:      &mysqlFence,
}

// fenceOf panics for an engine that this package does not know: an engine is
// chosen in the program's text, and an empty statement would be a fence that
// is open.
func fenceOf(e Engine) *fence {
	if int(e) >= len(fences) || fences[e] == nil {
		panic(fmt.Sprintf("sqlgen: no fence for %v", e))
	}
	return fences[e]
}

// Schema returns the script that creates the schema or brings it to
// [SchemaVersion]: plain statements, idempotent, to be run as one string or by
// any migration tool. It panics for an unknown engine, as all functions here.
func Schema(e Engine) string { return fenceOf(e).schema }

// SchemaStatements returns the statements of [Schema] as a driver takes them: one
// after the other where it takes no more than one at once (MySQL), and otherwise
// the script in one piece.
func SchemaStatements(e Engine) []string {
	if e == MySQL {
		return mysqlStatements()
	}
	return []string{Schema(e)}
}

// VersionSQL returns a query without parameters whose one row and column is
// the version of the schema found, an integer, 0 where there is none. It needs
// no privilege on the schema. SQLite, MySQL: where there is none, the server's
// error says that the table is missing; MySQL demands the privileges of [Grants].
func VersionSQL(e Engine, opts ...Option) string {
	return fenceOf(e).version(newOptions(opts).database)
}

// CheckSQL returns one statement that checks n >= 1 tokens, given as
// n * [TokenParams] parameters in the order of [TokenParams].
//
// PostgreSQL: one row with one boolean, true; a token that does not pass
// raises (see the comment of sqlfence.pass in the schema), and the fence stays
// closed to takeovers until the transaction ends. SQLite, MySQL: one row
// (resource, high_water, grant_id) for each token whose resource has a mark, for
// the caller to judge; on MySQL, the marks found stay as they are until the
// transaction ends.
func CheckSQL(e Engine, n int, opts ...Option) string {
	if n < 1 {
		panic(fmt.Sprintf("sqlgen: CheckSQL for %d tokens", n))
	}
	o := newOptions(opts)
	check := fenceOf(e).check(n, o.database)
	if e == PostgreSQL && o.untilExpiry {
		check = strings.ReplaceAll(check, "sqlfence.pass(", "sqlfence.pass_unexpired(")
	}
	return check
}

// LeaseSQL returns one query about n >= 1 tokens, given as for [CheckSQL], that have
// passed the check, for engines whose check knows of no expiry (SQLite, MySQL): one
// row (resource, runs) for each token whose lease is here, where runs is 1 if it has
// not expired by the server's clock, and 0 otherwise. It waits for no lock.
func LeaseSQL(e Engine, n int, opts ...Option) string {
	var of func(k int) string
	limit := ""
	var b strings.Builder
	switch e {
	case SQLite:
		b.WriteString(sqliteLease)
		of = func(k int) string {
			return fmt.Sprintf("(l.resource = ?%d AND l.epoch = ?%d AND l.grant_id = ?%d)", k+1, k+2, k+3)
		}
	case MySQL:
		b.WriteString(strings.Replace(mysqlLease, "sqlfence_expiry", newOptions(opts).database+"sqlfence_expiry", 1))
		of = func(int) string {
			return "(l.resource = UNHEX(CONVERT(? USING ascii)) AND l.epoch = ? AND l.grant_id = ?)"
		}
		limit = fmt.Sprintf(" LIMIT %d", n)
	default:
		panic("sqlgen: LeaseSQL for " + e.String())
	}
	for i := range n {
		if i > 0 {
			b.WriteString(" OR ")
		}
		b.WriteString(of(i * TokenParams))
	}
	return b.String() + ")" + limit
}

// MarkSQL returns a query with one parameter, the resource (see [ResourceParam]). Its row is the
// mark (high_water, grant_id), both int64; no row where there is none. It does
// not wait for locks, and what it finds may be old when it arrives.
func MarkSQL(e Engine) string { return fenceOf(e).mark }

// AdvanceSQL returns the statement that raises the mark to a token, given as
// [TokenParams] parameters, and never lowers it.
//
// PostgreSQL: a query whose one row is the mark after it (high_water,
// grant_id): the token's own if it was raised or was there already, and the
// higher or rival one if the token is stale. It waits, bounded, for open
// guarded transactions. Only when the result was read to its end has it been
// committed. SQLite: a statement with the same result. MySQL: a CALL with the
// same result, which waits for 10 s at most.
func AdvanceSQL(e Engine) string { return fenceOf(e).advance }

// Grants returns the statements that let role, a plain identifier of any
// spelling, use the fence and the leases: to be run by the schema's owner. It
// is empty for an engine without privileges.
func Grants(e Engine, role string) string {
	if g := fenceOf(e).grants; g != nil {
		return g(role)
	}
	return ""
}
