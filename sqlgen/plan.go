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
	Advice   string   // what to do instead of a refused statement, or where it is not refused
	Params   int      // the number of parameters that the text takes
	Commits  bool     // MySQL: executing it may end the open transaction, which its Kind does not tell
	Chains   bool     // a COMMIT or ROLLBACK in it begins the next transaction at once
	// At is the index among the user's arguments at which those of the fence
	// are inserted, [TokenParams] for each token: Params, but on MySQL, which
	// counts its parameters by their places.
	At int

	rules   *rules
	options options
	text    string
	kinds   []Kind
	kind1   [1]Kind // what kinds is, for one statement
	edits   []edit  // sorted by place
	suffix  string  // makes the names that are injected differ from the user's
	check   bool    // PostgreSQL: the guard CTE reads the answer of a CTE that the WHERE reads too
	returns bool    // there is a RETURNING clause (not PostgreSQL)
	raises  bool    // see Raises
	wraps   bool    // see WrapsParam
	once    atomic.Pointer[string]
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
func (p *Plan) AskOnZero() bool { return p.Strategy == Splice && p.rules.askOnZero && !p.raises }

// Raises reports whether a refused write shows as an error that other causes
// can have too, so that the fence must be asked what it means: on MySQL, a write
// of rows that the text lists, as error 1242 (a sub-select has more than one row).
func (p *Plan) Raises() bool { return p.raises }

// WrapsParam reports whether a parameter of the user's carries the fence. MariaDB
// gives it the type of each value, as it does without. MySQL would derive another
// type than that of the column, and keep it for later values: there the statement is
// to be checked first.
func (p *Plan) WrapsParam() bool { return p.wraps }

// Returns reports whether a row of the result is one that the statement wrote.
// It is false without RETURNING: SQLite can be told to answer each write with
// a row of its own (PRAGMA count_changes), which proves nothing.
func (p *Plan) Returns() bool { return p.returns }

// Guarded returns the text with the fence of n tokens spliced in. The text
// takes [TokenParams] parameters per token besides the user's own [Plan.Params]:
// their arguments go in at [Plan.At].
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
	limit := p.rules.maxParams
	if total := p.Params + n*TokenParams; total > limit {
		return "", &TooManyParamsError{Params: p.Params, Total: total, Limit: limit}
	}
	s := p.splice(n, nil)
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
	editHaving                         // a HAVING clause of ours
	editValueOpen                      // (CASE WHEN guard, or an error, THEN, before a value
	editValueClose                     // END and the closing bracket
)

type edit struct {
	at   int32 // byte offset into the text
	num  int32 // of editNumber
	kind editKind
}

// hasParams reports whether the parameters of the fence are put in here, by an
// engine that puts them where the guard is.
func (k editKind) hasParams() bool {
	switch k {
	case editWhere, editWhereOpen, editCloseAnd, editRowsClose, editLimit, editLimitOpen, editHaving, editValueOpen:
		return true
	}
	return false
}

// splice returns the text with the fence of n tokens, and notes in pieces, if that is
// not nil, where something was inserted.
func (p *Plan) splice(n int, pieces *[]inserted) string {
	// What is inserted comes first, so that a text of megabytes is copied once.
	b := make([]byte, 0, 512*n+len(p.edits)*8)
	var few [8]int
	ends := few[:0]
	for _, e := range p.edits {
		b = p.appendEdit(b, e, n)
		ends = append(ends, len(b))
	}
	var text strings.Builder
	text.Grow(len(p.text) + len(b))
	from, done := int32(0), 0
	for i, e := range p.edits {
		text.WriteString(p.text[from:e.at])
		start := text.Len()
		text.Write(b[done:ends[i]])
		from, done = e.at, ends[i]
		if pieces != nil {
			*pieces = append(*pieces, inserted{start, text.Len()})
		}
	}
	text.WriteString(p.text[from:])
	return text.String()
}

// appendEdit appends what the edit inserts for n tokens.
func (p *Plan) appendEdit(b []byte, e edit, n int) []byte {
	switch e.kind {
	case editHead:
		b = append(p.appendHead(append(b, "WITH "...), n), ' ')
	case editList:
		b = append(p.appendHead(append(b, ' '), n), ',')
	case editWhere:
		b = p.rules.guard(append(b, " WHERE "...), p, n)
	case editWhereOpen:
		if isIdent(p.text[e.at-1]) { // WHERE(a)
			b = append(b, ' ')
		}
		b = append(p.rules.guard(b, p, n), " AND ("...)
	case editClose:
		b = append(b, ')')
	case editOpen:
		b = append(b, '(')
	case editCloseAnd:
		b = p.rules.guard(append(b, ") AND "...), p, n)
	case editNumber:
		b = strconv.AppendInt(b, int64(e.num), 10)
	case editRowsOpen:
		b = append(b, "SELECT * FROM ("...)
	case editRowsClose:
		b = p.rules.guard(append(b, ") WHERE "...), p, n)
	case editLimit:
		b = append(p.rules.guard(append(b, " LIMIT CASE WHEN "...), p, n), " THEN -1 ELSE 0 END"...)
		b = p.apart(b, e.at)
	case editLimitOpen:
		b = append(p.rules.guard(append(b, " CASE WHEN "...), p, n), " THEN ("...)
	case editLimitClose:
		b = p.apart(append(b, ") ELSE 0 END"...), e.at)
	case editHaving:
		b = p.rules.guard(append(b, " HAVING "...), p, n)
	case editValueOpen:
		// Not (SELECT … WHERE guard): MySQL counts the row of a sub-select among
		// those that its errors count. The one here has none while the fence is
		// open.
		b = p.rules.guard(append(b, "(CASE WHEN CASE WHEN EXISTS (SELECT 1 FROM DUAL WHERE NOT ("...), p, n)
		b = append(b, ")) THEN (SELECT 1 UNION ALL SELECT 2) ELSE 1 END THEN "...)
	case editValueClose:
		b = append(b, " END)"...)
	}
	return b
}

// apart appends a space if the text goes on with what would lengthen a word.
func (p *Plan) apart(b []byte, at int32) []byte {
	if int(at) < len(p.text) && isIdent(p.text[at]) {
		return append(b, ' ')
	}
	return b
}

// appendHead appends the WITH members that hold the check (PostgreSQL).
func (p *Plan) appendHead(b []byte, n int) []byte {
	return appendPostgresHead(b, p.suffix, p.Params, n, p.check, p.options.untilExpiry)
}

// freshSuffix returns what to put behind the names that are injected so that
// they differ from every word of the text: the least number that follows no
// underscore there.
func freshSuffix(text string) string {
	taken := make(map[uint64]bool)
	for {
		i := strings.IndexByte(text, '_')
		if i < 0 {
			break
		}
		text = text[i+1:]
		digits := 0
		for digits < len(text) && isDigit(text[digits]) {
			digits++
		}
		// A longer number cannot be the least one that is free.
		if n, err := strconv.ParseUint(text[:digits], 10, 64); err == nil {
			taken[n] = true
		}
	}
	n := uint64(2)
	for taken[n] {
		n++
	}
	return "_" + strconv.FormatUint(n, 10)
}
