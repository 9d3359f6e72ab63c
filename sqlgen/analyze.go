package sqlgen

import (
	"errors"
	"strings"
)

// Analyze finds out about a text by the rules of the engine. It never fails: a
// text that is not understood is a [Plan] of KindUnknown, which counts as a
// write and is refused under a token. The time it takes is linear in the
// length of the text. It panics for an engine that this package does not know.
func Analyze(e Engine, text string) *Plan {
	if e != PostgreSQL && e != SQLite {
		panic("sqlgen: no rules for " + e.String())
	}
	p := &Plan{Engine: e, text: text}
	w := newWalker(e, text)
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
	o := w.statement(s)
	p.Params = w.params()
	if w.engine == SQLite {
		edits, params, ok := w.sqliteNumber(o.edits)
		p.Params = params
		switch {
		case o.strategy != Splice:
		case !ok:
			o = checkFirst(o, "a named parameter stands behind the place of the fence")
		case w.namesParameter(s):
			o = checkFirst(o, "a column is named after its text, which would change")
		default:
			o.edits = edits
		}
	}
	if w.own && o.strategy == Splice {
		p.suffix = freshSuffix(p.text)
	}
	p.set(o)
	p.alone()
}

func (w *walker) analyzeSeveral(p *Plan, parts []span) {
	o := refuse(KindSeveral, "several statements", "they cannot be guarded as one", "send them one at a time")
	known := true
	for _, part := range parts {
		s := w.statement(part)
		p.kinds = append(p.kinds, s.kind)
		o.tables = append(o.tables, s.tables...)
		known = known && (s.tables != nil || !s.kind.writes())
	}
	if !known {
		o.tables = nil
	}
	p.Params = w.params()
	p.set(o)
}

func (w *walker) statement(s span) outcome {
	if w.engine == SQLite {
		return sqliteStatement(w, s.lo, s.hi)
	}
	return postgresStatement(w, s.lo, s.hi)
}

func (p *Plan) set(o outcome) {
	p.Kind, p.Verb, p.Tables, p.Strategy = o.kind, o.verb, o.tables, o.strategy
	p.Reason, p.Advice, p.edits, p.check, p.returns = o.reason, o.advice, o.edits, o.check, o.returns
}

// alone notes that the text is one statement.
func (p *Plan) alone() {
	p.kind1[0] = p.Kind
	p.kinds = p.kind1[:]
}

// span is the tokens of one statement.
type span struct{ lo, hi int }

// split divides the text at its semicolons; empty statements are dropped. The
// semicolons inside of a body (BEGIN ATOMIC … END, a trigger's BEGIN … END)
// do not divide.
func (w *walker) split() []span {
	lo, body := 0, false
	for i := 0; i <= len(w.tokens); {
		switch {
		case i == len(w.tokens) || w.tokens[i].punct == ';' && !body:
			if i > lo {
				w.parts = append(w.parts, span{lo, i})
			}
			i++
			lo, body = i, false
			continue
		case w.tokens[i].word == kwBegin && !body:
			body = w.hasBody(lo, i)
		case w.tokens[i].word == kwEnd && body:
			// A CASE ends elsewhere, and so may a column of that name: behind
			// a semicolon there is no other END.
			body = w.tokens[i-1].punct != ';' && w.tokens[i-1].word != kwAtomic
		}
		i = w.next(i)
	}
	return w.parts
}

// hasBody reports whether the BEGIN at i opens a body of statements: that of
// CREATE [OR REPLACE] FUNCTION or PROCEDURE, or of CREATE [TEMP] TRIGGER.
func (w *walker) hasBody(lo, i int) bool {
	if !w.is(lo, i, kwCreate) {
		return false
	}
	lo++
	if w.engine == PostgreSQL {
		if w.is(lo, i, kwOr) && w.is(lo+1, i, kwReplace) {
			lo += 2
		}
		return (w.is(lo, i, kwFunction) || w.is(lo, i, kwProcedure)) && w.is(i+1, len(w.tokens), kwAtomic)
	}
	if w.is(lo, i, kwTemp) || w.is(lo, i, kwTemporary) {
		lo++
	}
	return w.is(lo, i, kwTrigger)
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
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case isPostgresSpace(c):
			i++
		case c == '-' && strings.HasPrefix(text[i:], "--"):
			ends := "\n"
			if e == PostgreSQL {
				ends = "\n\r"
			}
			n := strings.IndexAny(text[i:], ends)
			if n < 0 {
				return false
			}
			i += n + 1
		case isLetter(c) && c < 0x80:
			end := i + 1
			for end < len(text) && isIdent(text[end]) {
				end++
			}
			switch lookupKeyword(text[i:end]) {
			case kwBegin, kwStart, kwCommit, kwEnd, kwRollback, kwAbort, kwSavepoint, kwRelease, kwPrepare, kwAttach, kwDetach:
				return true
			}
			return false
		default:
			// A comment, a bracket, a byte order mark or something odd: let
			// Analyze tell.
			return c != '('
		}
	}
	return false
}
