package sqlgen

import "strings"

// walker goes over the tokens of one text. All ranges are of token indexes,
// half open.
type walker struct {
	engine Engine
	text   string
	tokens []token
	match  []int32 // for a bracket: the index of its partner
}

// brackets pairs them all; an unbalanced text is refused, so that no closing
// bracket of a condition can end a bracket of ours: x) OR (1=1.
func (w *walker) brackets() error {
	w.match = make([]int32, len(w.tokens))
	var open []int32
	for i, t := range w.tokens {
		switch t.punct {
		case '(', '[':
			open = append(open, int32(i))
		case ')', ']':
			want := byte('(')
			if t.punct == ']' {
				want = '['
			}
			if len(open) == 0 || w.tokens[open[len(open)-1]].punct != want {
				return &lexError{at: t.start, reason: "a closing bracket without its opening one"}
			}
			w.match[open[len(open)-1]] = int32(i)
			w.match[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return &lexError{at: w.tokens[open[len(open)-1]].start, reason: "an opening bracket without its closing one"}
	}
	return nil
}

// next is the token behind i on the same level: behind the partner, if i is an
// opening bracket.
func (w *walker) next(i int) int {
	if p := w.tokens[i].punct; p == '(' || p == '[' {
		return int(w.match[i]) + 1
	}
	return i + 1
}

// is reports whether i is in the range that ends at hi and is this keyword,
// used as one. Behind a dot or AS any word is a name (CASES D28).
func (w *walker) is(i, hi int, k keyword) bool {
	return i < hi && w.tokens[i].word == k && !w.isLabel(i)
}

func (w *walker) isLabel(i int) bool {
	if i == 0 {
		return false
	}
	prev := w.tokens[i-1]
	return prev.punct == '.' || prev.word == kwAs && !w.isLabel(i-1)
}

func (w *walker) isPunct(i, hi int, c byte) bool { return i < hi && w.tokens[i].punct == c }

// find returns the first use of a keyword on the level of lo, or hi.
func (w *walker) find(lo, hi int, k keyword) int {
	for i := lo; i < hi; i = w.next(i) {
		if w.is(i, hi, k) {
			return i
		}
	}
	return hi
}

// name reports whether i can be a part of a name.
func (w *walker) name(i, hi int) bool {
	return i < hi && (w.tokens[i].kind == tokenWord || w.tokens[i].kind == tokenQuoted ||
		// SQLite also takes a string where it expects a name.
		w.engine == SQLite && w.tokens[i].kind == tokenString)
}

// table reads a possibly qualified name.
func (w *walker) table(i, hi int) (t Table, next int, ok bool) {
	if !w.name(i, hi) {
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
func (w *walker) identifier(i int) string {
	t := w.tokens[i]
	s := w.text[t.start:t.end]
	if t.kind == tokenWord {
		return strings.Map(func(r rune) rune {
			if r >= 'A' && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return r
		}, s)
	}
	quote := s[len(s)-1:]
	if s[0] == 'x' || s[0] == 'X' {
		return s
	}
	s = s[1 : len(s)-1]
	if quote == "]" {
		return s
	}
	return strings.ReplaceAll(s, quote+quote, quote)
}

// cte is one member of a WITH list: its body is the range (open, shut).
type cte struct{ open, shut int }

// withList reads a WITH list whose WITH is at i. list is where its first
// member begins, main the first token of the statement behind it.
func (w *walker) withList(i, hi int) (list, main int, ctes []cte, ok bool) {
	i++
	if w.is(i, hi, kwRecursive) {
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
		ctes = append(ctes, cte{open: i + 1, shut: int(w.match[i])})
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

// params returns the highest number of the text's numbered parameters.
func (w *walker) params() int {
	n := 0
	for _, t := range w.tokens {
		n = max(n, t.num)
	}
	return n
}
