package sqlgen

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// walker goes over the tokens of one text. All ranges are of token indexes,
// half open.
type walker struct {
	lexer
	rules *rules
	open  []int32 // of the brackets not yet closed
	parts []span  // see split
	// qualified: the names that are injected say in which database they are.
	qualified bool
}

// walkers keeps the slices of past walks. Nothing of a walker goes into a Plan.
var walkers = sync.Pool{New: func() any { return new(walker) }}

// maxKeptTokens is how many tokens a walker may have room for and still be used
// again: 48 MiB of them, enough for a bulk insert of 15 MB, because to get fresh
// memory cleared takes as long as to read the text. What is not used again goes with
// the next garbage.
const maxKeptTokens = 1 << 22

func newWalker(e Engine, text string) *walker {
	w := walkers.Get().(*walker)
	w.rules, w.text = rulesOf(e), text
	return w
}

// free gives the walker back; it must not be used any more.
func (w *walker) free() {
	if cap(w.tokens) > maxKeptTokens {
		return
	}
	*w = walker{lexer: lexer{tokens: w.tokens[:0], params: w.params[:0]}, open: w.open[:0], parts: w.parts[:0]}
	walkers.Put(w)
}

// read lexes the whole text and pairs its brackets.
func (w *walker) read() error {
	// Some drivers send a text up to its first NUL: what stands behind it,
	// even in a comment, would be seen here and not by the server.
	if i := strings.IndexByte(w.text, 0); i >= 0 {
		return w.fail(i, "a NUL byte", "")
	}
	if len(w.text) > maxText {
		return w.fail(0, "a text of more than 1 GiB", "send less at a time")
	}
	if err := w.rules.lex(&w.lexer); err != nil {
		return err
	}
	return w.brackets()
}

// brackets pairs them all; an unbalanced text is refused, so that no closing
// bracket of a condition can end a bracket of ours: x) OR (1=1.
func (w *walker) brackets() error {
	for i := range w.tokens {
		switch t := &w.tokens[i]; t.punct {
		case '(', '[':
			w.open = append(w.open, int32(i))
		case ')', ']':
			last := len(w.open) - 1
			if last < 0 || (w.tokens[w.open[last]].punct == '[') != (t.punct == ']') {
				return w.fail(int(t.start), "a closing bracket without its opening one", "")
			}
			w.tokens[w.open[last]].rest = int32(i)
			t.rest = w.open[last]
			w.open = w.open[:last]
		}
	}
	if last := len(w.open) - 1; last >= 0 {
		return w.fail(int(w.tokens[w.open[last]].start), "an opening bracket without its closing one", "")
	}
	return nil
}

// partner returns the index of the bracket that closes or opens the one at i.
func (w *walker) partner(i int) int { return int(w.tokens[i].rest) }

// spelled returns the text of a token.
func (w *walker) spelled(i int) string { return w.text[w.tokens[i].start:w.tokens[i].end()] }

// verb returns what a statement is called in errors: its first word in upper
// case.
func (w *walker) verb(i int) string {
	switch t := &w.tokens[i]; {
	case t.kind != tokenWord:
		return "the text"
	case t.word != notKeyword:
		return t.word.String()
	case t.end()-t.start > 32:
		return "the text"
	}
	return strings.ToUpper(w.spelled(i))
}

// next is the token behind i on the same level: behind the partner, if i is an
// opening bracket.
func (w *walker) next(i int) int {
	if t := &w.tokens[i]; t.punct == '(' || t.punct == '[' {
		return int(t.rest) + 1
	}
	return i + 1
}

// is reports whether i is in the range that ends at hi and is this keyword,
// used as one. Behind a dot or AS any word is a name (CASES D28).
func (w *walker) is(i, hi int, k keyword) bool {
	return i < hi && w.tokens[i].word == k && !w.isLabel(i)
}

func (w *walker) isLabel(i int) bool {
	label := false
	// Of a run of AS, each second one is a label.
	for i--; i >= 0 && w.tokens[i].word == kwAs; i-- {
		label = !label
	}
	if i >= 0 && w.tokens[i].punct == '.' {
		label = !label
	}
	return label
}

func (w *walker) isPunct(i, hi int, c byte) bool { return i < hi && w.tokens[i].punct == c }

// spells reports whether i is a word without quotes that reads so, for words
// that are rarely looked for.
func (w *walker) spells(i int, lower string) bool {
	t := &w.tokens[i]
	return t.kind == tokenWord && int(t.end()-t.start) == len(lower) && strings.EqualFold(w.spelled(i), lower)
}

// find returns the first use of a keyword on the level of lo, or hi.
func (w *walker) find(lo, hi int, k keyword) int {
	for i := lo; i < hi; i = w.next(i) {
		if w.is(i, hi, k) {
			return i
		}
	}
	return hi
}

// count returns how often a keyword is used in the range, on any level.
func (w *walker) count(lo, hi int, k keyword) (n int) {
	for i := lo; i < hi; i++ {
		if w.is(i, hi, k) {
			n++
		}
	}
	return n
}

// condition reports whether the range can be one condition, and not something
// that only brackets would make into one: a list, or a query.
func (w *walker) condition(lo, hi int) bool {
	for i := lo; i < hi; i = w.next(i) {
		switch t := &w.tokens[i]; t.word {
		case kwWhere, kwSelect, kwTable:
			if !w.isLabel(i) {
				return false
			}
		case kwValues:
			if !w.isLabel(i) && (!w.rules.valuesColumn || w.isPunct(i+1, hi, '(')) {
				return false
			}
		case notKeyword:
			if t.punct == ',' || t.punct == ';' {
				return false
			}
		}
	}
	return lo < hi
}

// name reports whether i can be a part of a name.
func (w *walker) name(i, hi int) bool {
	return i < hi && (w.tokens[i].kind == tokenWord || w.tokens[i].kind == tokenQuoted ||
		w.rules.stringNames && w.tokens[i].kind == tokenString)
}

// table reads a possibly qualified name. Of the words, AS is none on any engine, and
// with another one behind it it would read as an alias.
func (w *walker) table(i, hi int) (t Table, next int, ok bool) {
	if !w.name(i, hi) || w.tokens[i].word == kwAs {
		return t, i, false
	}
	t.Name = w.identifier(i)
	i++
	for parts := 1; w.isPunct(i, hi, '.'); parts++ {
		if !w.name(i+1, hi) || parts == 3 {
			return t, i, false
		}
		t.Schema, t.Name = t.Name, w.identifier(i+1)
		i += 2
	}
	return t, i, true
}

// identifier is the name that token i spells.
func (w *walker) identifier(i int) string { return w.rules.cut(w.unquoted(i)) }

// CutName returns the name that the engine takes this one for: PostgreSQL cuts it to
// 63 bytes, between two characters.
func CutName(e Engine, name string) string { return rulesOf(e).cut(name) }

func (r *rules) cut(name string) string {
	end := r.maxName
	if end == 0 || len(name) <= end {
		return name
	}
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

func (w *walker) unquoted(i int) string {
	s := w.spelled(i)
	switch w.tokens[i].kind {
	case tokenWord:
		for j := 0; j < len(s) && !w.rules.sameCase; j++ {
			if s[j] >= 'A' && s[j] <= 'Z' {
				return foldASCII(s)
			}
		}
		return s
	case tokenString:
		if s[0] != '\'' && s[0] != '"' { // x'…'
			return s
		}
	}
	quote := s[len(s)-1:]
	s = s[1 : len(s)-1]
	if quote == "]" {
		return s
	}
	return strings.ReplaceAll(s, quote+quote, quote)
}

// foldASCII lowers the letters of ASCII, and no others: so do the engines.
func foldASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// cte is one member of a WITH list: its body is the range (open, shut).
type cte struct{ open, shut int }

// withList reads a WITH list whose WITH is at i. list is where its first
// member begins, main the first token of the statement behind it.
func (w *walker) withList(i, hi int) (list, main int, ctes []cte, ok bool) {
	i++
	if w.recursive(i, hi) {
		i++
	}
	list = i
	for {
		if !w.name(i, hi) {
			return
		}
		i++
		if w.isPunct(i, hi, '(') {
			i = w.next(i)
		}
		if i >= hi || w.tokens[i].word != kwAs {
			return
		}
		i++
		// These two words are not labels, although they follow AS.
		if i < hi && w.tokens[i].word == kwNot {
			i++
		}
		if i < hi && w.tokens[i].word == kwMaterialized {
			i++
		}
		if !w.isPunct(i, hi, '(') {
			return
		}
		ctes = append(ctes, cte{open: i + 1, shut: w.partner(i)})
		i = w.next(i)
		if i, ok = w.searchAndCycle(i, hi); !ok {
			return list, i, ctes, false
		}
		if !w.isPunct(i, hi, ',') {
			return list, i, ctes, i < hi
		}
		i++
	}
}

// recursive reports whether the word behind WITH is RECURSIVE, and not the name
// of the first member.
func (w *walker) recursive(i, hi int) bool {
	return i < hi && w.tokens[i].word == kwRecursive && i+1 < hi && w.tokens[i+1].word != kwAs && w.tokens[i+1].punct != '('
}

// searchAndCycle reads PostgreSQL's clauses behind the body of a recursive
// query.
func (w *walker) searchAndCycle(i, hi int) (int, bool) {
	names := func() bool {
		for {
			if !w.name(i, hi) {
				return false
			}
			i++
			if !w.isPunct(i, hi, ',') {
				return true
			}
			i++
		}
	}
	word := func(k keyword) bool {
		if !w.is(i, hi, k) {
			return false
		}
		i++
		return true
	}
	if word(kwSearch) {
		if !word(kwBreadth) && !word(kwDepth) {
			return i, false
		}
		if !word(kwFirst) || !word(kwBy) || !names() || !word(kwSet) || !w.name(i, hi) {
			return i, false
		}
		i++
	}
	if word(kwCycle) {
		if !names() || !word(kwSet) || !w.name(i, hi) {
			return i, false
		}
		i++
		if word(kwTo) {
			for i < hi && !w.is(i, hi, kwUsing) {
				i = w.next(i)
			}
		}
		if !word(kwUsing) || !w.name(i, hi) {
			return i, false
		}
		i++
	}
	return i, true
}

// highest returns the highest number of the text's numbered parameters.
func (w *walker) highest() int {
	n := int32(0)
	for _, p := range w.params {
		n = max(n, p.num)
	}
	return int(n)
}
