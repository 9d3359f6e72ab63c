package sqlgen

// mysqlEnd returns the semicolon that ends the statement which begins at lo,
// or the number of tokens. Those in the body of a routine, and in a compound
// statement of MariaDB's, end nothing.
func mysqlEnd(w *walker, lo int) int {
	n := len(w.tokens)
	body, compound := w.mysqlBody(lo)
	if !compound {
		for i := lo; i < n; i = w.next(i) {
			if w.tokens[i].punct == ';' {
				return i
			}
		}
		return n
	}
	// depth counts the blocks that END closes, cases the CASE … END that are
	// expressions. A statement begins where first is true.
	depth, cases, first := 0, 0, true
	for i := body; i < n; {
		switch {
		case w.tokens[i].punct == ';':
			if depth <= 0 {
				return i
			}
			first, cases = true, 0
			i++
			continue
		case first && w.name(i, n) && w.isPunct(i+1, n, ':'): // a label
			i += 2
			continue
		case first && w.mysqlOpens(i, n):
			depth++
			first = w.is(i, n, kwBegin) || w.says(i, n, "loop") || w.says(i, n, "repeat")
			if w.is(i, n, kwBegin) && w.is(i+1, n, kwNot) { // NOT ATOMIC
				i += 2
			}
			i++
			continue
		case first && w.is(i, n, kwEnd):
			depth--
			first = false
			if i+1 < n && w.mysqlOpens(i+1, n) { // END IF
				i++
			}
		case first && w.says(i, n, "else"):
			i++
			continue
		case w.is(i, n, kwBegin) && depth > 0 && !first: // the body of a handler
			depth++
			first = true
			i++
			continue
		case w.says(i, n, "case"):
			cases++
			first = false
		case w.is(i, n, kwEnd) && cases > 0:
			cases--
		case w.is(i, n, kwEnd) && w.says(i+1, n, "repeat"): // UNTIL … END REPEAT
			depth--
			i++
		case cases == 0 && depth > 0 && (w.says(i, n, "then") || w.is(i, n, kwDo)):
			first = true
			i++
			continue
		default:
			first = false
		}
		i = w.next(i)
	}
	return n
}

// mysqlOpens reports whether the word at i, which begins a statement or stands
// behind END, is that of a block.
func (w *walker) mysqlOpens(i, hi int) bool {
	switch w.tokens[i].word {
	case kwBegin, kwIf, kwFor:
		return w.is(i, hi, w.tokens[i].word)
	}
	return w.says(i, hi, "case") || w.says(i, hi, "loop") || w.says(i, hi, "while") || w.says(i, hi, "repeat")
}

// mysqlBody returns where the body of statements begins, if the statement at lo
// has one: CREATE PROCEDURE, FUNCTION, TRIGGER, EVENT, and compound statements.
func (w *walker) mysqlBody(lo int) (body int, compound bool) {
	n := len(w.tokens)
	if w.is(lo, n, kwBegin) {
		return lo, w.is(lo+1, n, kwNot)
	}
	if w.mysqlOpens(lo, n) || w.name(lo, n) && w.isPunct(lo+1, n, ':') {
		return lo, true
	}
	if !w.is(lo, n, kwCreate) && !w.is(lo, n, kwAlter) {
		return lo, false
	}
	i := lo + 1
	if w.is(i, n, kwOr) {
		i += 2
	}
	if w.says(i, n, "definer") { // = user[@host]
		for i += 3; i < n && (w.tokens[i].kind == tokenVariable || w.tokens[i].punct == '('); {
			i = w.next(i)
		}
	}
	if w.says(i, n, "aggregate") {
		i++
	}
	from := i
	trigger, event := w.is(i, n, kwTrigger), w.says(i, n, "event")
	switch {
	case trigger, event:
	case w.is(i, n, kwProcedure), w.is(i, n, kwFunction):
		for i < n && w.tokens[i].punct != '(' && w.tokens[i].punct != ';' {
			i++
		}
		from = i
	default:
		return lo, false
	}
	for i = from; i < n && w.tokens[i].punct != ';'; i = w.next(i) {
		switch {
		case event:
			if w.is(i, n, kwDo) {
				return i + 1, true
			}
		case trigger:
			if w.says(i, n, "each") && w.says(i+1, n, "row") {
				if i += 2; w.says(i, n, "follows") || w.says(i, n, "precedes") {
					i += 2
				}
				return i, true
			}
		case w.mysqlOpens(i, n), w.name(i, n) && w.isPunct(i+1, n, ':'):
			return i, true
		case w.mysqlExplained(i, n) && w.tokens[i].punct == 0, w.says(i, n, "return"), w.is(i, n, kwCall):
			return lo, false
		}
	}
	return lo, false
}
