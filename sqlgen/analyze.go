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
	w, own, err := scan(e, text)
	if err != nil {
		verb := "the text"
		if len(w.tokens) > 0 && w.tokens[0].kind == tokenWord {
			verb = strings.ToUpper(text[w.tokens[0].start:w.tokens[0].end])
		}
		o := notUnderstood(verb, err.Error())
		var lexical *lexError
		if errors.As(err, &lexical) && lexical.advice != "" {
			o.advice = lexical.advice
		}
		p.set(o)
		p.kinds = []Kind{KindUnknown}
		return p
	}
	statement := postgresStatement
	if e == SQLite {
		statement = sqliteStatement
	}
	parts := w.split()
	switch len(parts) {
	case 0:
		p.set(pass(KindEmpty, ""))
		return p
	case 1:
		o := statement(w, parts[0].lo, parts[0].hi)
		p.Params = w.params()
		if e == SQLite {
			edits, params, ok := w.sqliteNumber(o.edits)
			p.Params = params
			switch {
			case o.strategy != Splice:
			case !ok:
				o = checkFirst(o, "a named parameter stands behind the place of the fence")
			default:
				o.edits = edits
			}
		}
		if own && o.strategy == Splice {
			p.suffix = freshSuffix(text)
		}
		p.set(o)
		p.kinds = []Kind{o.kind}
		return p
	}
	o := refuse(KindSeveral, "several statements", "they cannot be guarded as one", "send them one at a time")
	known := true
	for _, part := range parts {
		s := statement(w, part.lo, part.hi)
		p.kinds = append(p.kinds, s.kind)
		o.tables = append(o.tables, s.tables...)
		known = known && (s.tables != nil || !s.kind.writes())
	}
	if !known {
		o.tables = nil
	}
	p.Params = w.params()
	p.set(o)
	return p
}

func (p *Plan) set(o outcome) {
	p.Kind, p.Verb, p.Tables, p.Strategy = o.kind, o.verb, o.tables, o.strategy
	p.Reason, p.Advice, p.edits, p.check = o.reason, o.advice, o.edits, o.check
}

// scan reads the whole text. The walker is never nil.
func scan(e Engine, text string) (w *walker, own bool, err error) {
	w = &walker{engine: e, text: text}
	// Some drivers send a text up to its first NUL: what stands behind it,
	// even in a comment, would be seen here and not by the server.
	if i := strings.IndexByte(text, 0); i >= 0 {
		return w, false, &lexError{at: i, reason: "a NUL byte"}
	}
	l := &lexer{text: text, tokens: make([]token, 0, 16+min(len(text)/6, 1<<12))}
	if e == SQLite {
		err = lexSQLite(l)
	} else {
		err = lexPostgres(l)
	}
	w.tokens = l.tokens
	if err == nil {
		err = w.brackets()
	}
	return w, l.own, err
}

// span is the tokens of one statement.
type span struct{ lo, hi int }

// split divides the text at its semicolons; empty statements are dropped. The
// semicolons inside of a body (BEGIN ATOMIC … END, a trigger's BEGIN … END)
// do not divide.
func (w *walker) split() (parts []span) {
	lo, body := 0, 0
	for i := 0; i <= len(w.tokens); {
		if i == len(w.tokens) || w.tokens[i].punct == ';' && body == 0 {
			if i > lo {
				parts = append(parts, span{lo, i})
			}
			i++
			lo, body = i, 0
			continue
		}
		switch t := w.tokens[i]; {
		case t.word == kwBegin && body == 0 && i > lo && w.hasBody(lo, i):
			body = 1
		case t.word == kwCase && body > 0 && !w.isLabel(i):
			body++
		case t.word == kwEnd && body > 0 && !w.isLabel(i):
			body--
		}
		i = w.next(i)
	}
	return parts
}

// hasBody reports whether the BEGIN at i opens a body of statements.
func (w *walker) hasBody(lo, i int) bool {
	if w.tokens[lo].word != kwCreate {
		return false
	}
	if w.engine == PostgreSQL {
		return w.is(i+1, len(w.tokens), kwAtomic)
	}
	for j := lo + 1; j < i && j < lo+4; j++ { // CREATE [TEMP] TRIGGER
		if w.tokens[j].word == kwTrigger {
			return true
		}
	}
	return false
}

// MayChangeTransaction reports whether executing the text could begin or end
// a transaction or attach a database. It is false only where that is sure. It
// looks at the first word and for semicolons, allocates nothing, and is meant
// for texts that are executed without a token and need no [Plan].
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
		case isLetter(c):
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
			// A comment, a bracket or something odd: let Analyze tell.
			return c != '('
		}
	}
	return false
}
