package sqlgen

import (
	"errors"
	"slices"
	"strings"
)

// Analyze finds out about a text by the rules of the engine. It never fails: a
// text that is not understood is a [Plan] of KindUnknown, which counts as a
// write and is refused under a token. The time it takes is linear in the
// length of the text. It panics for an engine that this package does not know.
func Analyze(e Engine, text string, opts ...Option) *Plan {
	return analyze(e, text, newOptions(opts))
}

func analyze(e Engine, text string, o options) *Plan {
	p := &Plan{Engine: e, rules: rulesOf(e), options: o, text: text}
	w := newWalker(e, text)
	w.standardStrings, w.safeEncoding, w.qualified = o.standardStrings, o.safeEncoding, o.database != ""
	defer w.free()
	if err := w.read(); err != nil {
		verb := "the text"
		if len(w.tokens) > 0 {
			verb = w.verb(0)
		}
		o := notUnderstood(verb, err.Error())
		var lexical *lexError
		if errors.As(err, &lexical) && lexical.advice != "" {
			o.advice = lexical.advice
		}
		p.set(o)
		p.alone()
		return p
	}
	switch parts := w.split(); len(parts) {
	case 0:
		p.set(pass(KindEmpty, ""))
	case 1:
		w.analyzeOne(p, parts[0])
	default:
		w.analyzeSeveral(p, parts)
	}
	return p
}

func (w *walker) analyzeOne(p *Plan, s span) {
	o := w.rules.statement(w, s.lo, s.hi)
	p.Chains = w.chains(s, o.kind)
	o, p.Params, p.At = w.rules.number(w, s, o)
	if o.strategy == Splice && opensComment(p.text, o.edits) {
		o = notUnderstood(o.verb, "a clause of it ends in an operator")
	}
	if w.own && o.strategy == Splice {
		p.suffix = freshSuffix(p.text)
	}
	p.set(o)
	p.alone()
}

// opensComment reports whether the guard would be put behind a /* at the end of the
// text: two operators to SQLite, but a comment where anything follows. No valid
// statement has a place of ours there; with the fence in a comment it would become one.
// (MySQL's -- is like it: its rules refuse a clause that ends in a minus.)
func opensComment(text string, edits []edit) bool {
	return strings.HasSuffix(text, "/*") && slices.ContainsFunc(edits, func(e edit) bool { return int(e.at) == len(text) })
}

func (w *walker) analyzeSeveral(p *Plan, parts []span) {
	o := refuse(KindSeveral, "several statements", "they cannot be guarded as one", "send them one at a time")
	known := true
	for _, part := range parts {
		s := w.rules.statement(w, part.lo, part.hi)
		p.kinds = append(p.kinds, s.kind)
		p.Chains = p.Chains || w.chains(part, s.kind)
		o.tables = append(o.tables, s.tables...)
		o.commits = o.commits || s.commits
		known = known && (s.tables != nil || !s.kind.writes())
	}
	if !known {
		o.tables = nil
	}
	_, p.Params, p.At = w.rules.number(w, span{0, len(w.tokens)}, o)
	p.set(o)
}

// chains reports whether a statement of the kind is a COMMIT or ROLLBACK … AND CHAIN.
func (w *walker) chains(s span, k Kind) bool {
	if k != KindCommit && k != KindRollback {
		return false
	}
	for i := s.lo + 1; i < s.hi; i++ {
		if w.spells(i, "chain") && !w.spells(i-1, "no") {
			return true
		}
	}
	return false
}

func (p *Plan) set(o outcome) {
	p.Kind, p.Verb, p.Tables, p.Strategy = o.kind, o.verb, o.tables, o.strategy
	p.Reason, p.Advice, p.edits, p.check, p.returns = o.reason, o.advice, o.edits, o.check, o.returns
	p.Commits, p.raises, p.wraps = o.commits, o.raises && o.strategy == Splice, o.wraps && o.strategy == Splice
}

// alone notes that the text is one statement.
func (p *Plan) alone() {
	p.kind1[0] = p.Kind
	p.kinds = p.kind1[:]
}

// span is the tokens of one statement.
type span struct{ lo, hi int }

// split divides the text at its semicolons; empty statements are dropped.
func (w *walker) split() []span {
	for lo := 0; lo < len(w.tokens); {
		end := w.rules.end(w, lo)
		if end > lo {
			w.parts = append(w.parts, span{lo, end})
		}
		lo = end + 1
	}
	return w.parts
}

// endOf returns the semicolon that ends the statement which begins at lo.
// Where hasBody says that a BEGIN opens a body of statements (BEGIN ATOMIC …
// END, a trigger's BEGIN … END), the semicolons inside of it do not.
func (w *walker) endOf(lo int, hasBody func(w *walker, lo, i int) bool) int {
	body := false
	for i := lo; i < len(w.tokens); i = w.next(i) {
		switch {
		case w.tokens[i].punct == ';' && !body:
			return i
		case w.tokens[i].word == kwBegin && !body:
			body = hasBody(w, lo, i)
		case w.tokens[i].word == kwEnd && body:
			// A CASE ends elsewhere, and so may a column of that name: behind
			// a semicolon there is no other END.
			body = w.tokens[i-1].punct != ';' && w.tokens[i-1].word != kwAtomic
		}
	}
	return len(w.tokens)
}

// MayChangeTransaction reports whether executing the text could begin or end
// a transaction or attach a database. It is false only where that is sure, as
// long as the statement succeeds: one that fails can take the transaction with
// it (SQLite's OR ROLLBACK). It looks at the first word and for semicolons,
// allocates nothing, and is meant for texts that are executed without a token
// and need no [Plan].
func MayChangeTransaction(e Engine, text string) bool {
	if i := strings.IndexByte(text, ';'); i >= 0 && strings.Trim(text[i:], "; \t\r\n") != "" {
		return true
	}
	r := rulesOf(e)
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case isPostgresSpace(c):
			i++
		case c == '-' && strings.HasPrefix(text[i:], "--") && !r.dashSpace:
			n := strings.IndexAny(text[i:], r.lineEnds)
			if n < 0 {
				return false
			}
			i += n + 1
		case isLetter(c) && c < 0x80:
			end := i + 1
			for end < len(text) && isIdent(text[end]) {
				end++
			}
			return r.lasting(lookupKeyword(text[i:end]))
		default:
			// A comment, a bracket, a byte order mark or something odd: let
			// Analyze tell.
			return c != '('
		}
	}
	return false
}

// transactional holds the words that begin or end a transaction or attach a
// database, on PostgreSQL or SQLite.
func transactional(first keyword) bool {
	switch first {
	case kwBegin, kwStart, kwCommit, kwEnd, kwRollback, kwAbort, kwSavepoint, kwRelease, kwPrepare, kwAttach, kwDetach:
		return true
	}
	return false
}
