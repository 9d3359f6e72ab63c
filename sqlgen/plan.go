package sqlgen

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// Plan is what is known of one text on one engine. It is immutable and safe
// for concurrent use.
type Plan struct {
	Engine   Engine
	Kind     Kind
	Verb     string   // the leading verb in upper case, for errors
	Tables   []Table  // the tables written; nil where the text does not tell all of them
	Strategy Strategy // what is done with the text under a token
	Reason   string   // why it is refused, or checked first
	Advice   string   // what to do instead of a refused statement
	Params   int      // the number of parameters that the text takes

	text   string
	kinds  []Kind
	edits  []edit // sorted by place
	suffix string // makes the names that are injected differ from the user's
	check  bool   // PostgreSQL: the guard CTE reads the answer of a CTE that the WHERE reads too
	once   atomic.Pointer[string]
}

// Writes reports whether the statement writes, as far as the text tells. A
// text that is not understood counts as a write.
func (p *Plan) Writes() bool { return p.Kind.writes() }

func (k Kind) writes() bool {
	switch k {
	case KindUnknown, KindInsert, KindUpdate, KindDelete, KindMerge, KindWriteInWith,
		KindAttach, KindDefinition, KindOtherWrite, KindSeveral:
		return true
	}
	return false
}

// Kinds returns the kind of each statement of the text, in order: one, but for
// KindSeveral and KindEmpty. The caller must not change the slice.
func (p *Plan) Kinds() []Kind { return p.kinds }

// Text returns the text that was analysed.
func (p *Plan) Text() string { return p.text }

// AskOnZero reports whether a refused write shows as no row at all, so that
// the fence must be asked when none was affected. It is false where the check
// raises an error.
func (p *Plan) AskOnZero() bool { return p.Strategy == Splice && p.Engine == SQLite }

// Guarded returns the text with the fence of n tokens spliced in. The text
// takes [TokenParams] parameters per token behind the user's own [Plan.Params].
// It is an error if the plan's strategy is not [Splice], if n < 1, or if the
// statement would take more parameters than the engine's protocol can carry.
func (p *Plan) Guarded(n int) (string, error) {
	if n == 1 {
		if s := p.once.Load(); s != nil {
			return *s, nil
		}
	}
	if p.Strategy != Splice {
		return "", fmt.Errorf("sqlgen: %s is not spliced: strategy %v", p.Verb, p.Strategy)
	}
	if n < 1 {
		return "", errors.New("sqlgen: Guarded without a token")
	}
	limit := maxPostgresParams
	if p.Engine == SQLite {
		limit = maxSQLiteParams
	}
	if total := p.Params + n*TokenParams; total > limit {
		return "", &TooManyParamsError{Params: p.Params, Total: total, Limit: limit}
	}
	s := p.splice(n)
	if n == 1 {
		p.once.Store(&s)
	}
	return s, nil
}

// TooManyParamsError reports a statement whose own parameters leave no room
// for those of the tokens. Send fewer rows at a time.
type TooManyParamsError struct {
	Params int // the statement's own
	Total  int // with those of the tokens
	Limit  int // the engine's
}

func (e *TooManyParamsError) Error() string {
	return fmt.Sprintf("sqlgen: %d parameters and %d of the fence exceed the limit of %d: send fewer rows at a time",
		e.Params, e.Total-e.Params, e.Limit)
}

// editKind is what is put into the text at a place.
type editKind uint8

const (
	editHead       editKind = iota + 1 // a WITH list of ours, before the first token
	editList                           // members of ours, first in the user's WITH list
	editWhere                          // a WHERE clause of ours
	editWhereOpen                      // the guard and an opening bracket, before the user's condition
	editClose                          // the closing bracket
	editOpen                           // an opening bracket, before the user's condition
	editCloseAnd                       // the closing bracket and the guard
	editNumber                         // the number of an anonymous parameter, behind its ?
	editRowsOpen                       // SELECT * FROM (, before VALUES
	editRowsClose                      // ) WHERE guard
	editLimit                          // a LIMIT of ours
	editLimitOpen                      // CASE WHEN guard THEN (, behind the user's LIMIT
	editLimitClose                     // ) ELSE 0 END
)

type edit struct {
	at   int // byte offset into the text
	kind editKind
	num  int // of editNumber
}

// hasParams reports whether the parameters of the fence are put in here
// (SQLite).
func (k editKind) hasParams() bool {
	switch k {
	case editWhere, editCloseAnd, editRowsClose, editLimit, editLimitOpen:
		return true
	}
	return false
}

func (p *Plan) splice(n int) string {
	var b strings.Builder
	b.Grow(len(p.text) + 512*n)
	guard := p.guard(n)
	from := 0
	for _, e := range p.edits {
		b.WriteString(p.text[from:e.at])
		from = e.at
		switch e.kind {
		case editHead:
			b.WriteString("WITH " + p.head(n) + " ")
		case editList:
			b.WriteString(" " + p.head(n) + ",")
		case editWhere:
			b.WriteString(" WHERE " + guard)
		case editWhereOpen:
			b.WriteString(guard + " AND (")
		case editClose:
			b.WriteString(")")
		case editOpen:
			b.WriteString("(")
		case editCloseAnd:
			b.WriteString(") AND " + guard)
		case editNumber:
			b.WriteString(strconv.Itoa(e.num))
		case editRowsOpen:
			b.WriteString("SELECT * FROM (")
		case editRowsClose:
			b.WriteString(") WHERE " + guard)
		case editLimit:
			b.WriteString(" LIMIT CASE WHEN " + guard + " THEN -1 ELSE 0 END")
		case editLimitOpen:
			b.WriteString(" CASE WHEN " + guard + " THEN (")
		case editLimitClose:
			b.WriteString(") ELSE 0 END")
		}
	}
	b.WriteString(p.text[from:])
	return b.String()
}

// guard is the condition that is true while the fence is open.
func (p *Plan) guard(n int) string {
	if p.Engine == PostgreSQL {
		k := "sqlfence_k" + p.suffix
		return "(SELECT " + k + ".ok FROM " + k + ")"
	}
	return sqliteGuard(p.Params, n)
}

// head is the WITH members that hold the check (PostgreSQL).
func (p *Plan) head(n int) string { return postgresHead(p.suffix, p.Params, n, p.check) }

// freshSuffix returns what to put behind the names that are injected so that
// they differ from every word of the text.
func freshSuffix(text string) string {
	lower := strings.ToLower(text)
	for i := 2; ; i++ {
		s := "_" + strconv.Itoa(i)
		if !strings.Contains(lower, "sqlfence_k"+s) && !strings.Contains(lower, "sqlfence_guard"+s) {
			return s
		}
	}
}
