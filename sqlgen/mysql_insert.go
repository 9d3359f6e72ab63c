package sqlgen

// mysqlInsert finds out about INSERT and REPLACE, whose verb is at lo.
//
// Rows that the text lists stay as they are, because only so are they a simple
// insert: one that gets ids which follow each other, and holds no lock of the
// whole table while it waits for the key of another. The fence goes into one
// value of the first row, which is evaluated before any row is written: a literal
// where there is one, see [Plan.WrapsParam].
func (w *walker) mysqlInsert(lo, hi int) outcome {
	o := outcome{kind: KindInsert, verb: w.verb(lo), strategy: Splice}
	i, delayed, ignore := lo+1, false, false
	for w.says(i, hi, "low_priority") || w.says(i, hi, "high_priority") || w.says(i, hi, "delayed") || w.is(i, hi, kwIgnore) {
		delayed = delayed || w.says(i, hi, "delayed")
		ignore = ignore || w.is(i, hi, kwIgnore)
		i++
	}
	if w.is(i, hi, kwInto) {
		i++
	}
	table, i, ok := w.table(i, hi)
	if ok && w.is(i, hi, kwPartition) && w.isPunct(i+1, hi, '(') {
		i = w.next(i + 1)
	}
	if ok && w.isPunct(i, hi, '(') && !w.mysqlQuery(i+1, hi) { // the columns
		i = w.next(i)
	}
	if !ok || i >= hi {
		return notUnderstood(o.verb, "its rows are not understood")
	}
	o.tables, o.rows = []Table{table}, i
	end := w.mysqlUpsert(i, hi)
	returning := w.find(i, hi, kwReturning)
	o.returns = returning < hi
	end = min(end, returning)
	switch {
	case delayed:
		return refuse(o.kind, o.verb, "DELAYED rows are written later, by nobody under no token", "leave out DELAYED").on(table)
	case w.is(i, hi, kwTable):
		return checkFirst(o, "TABLE takes no condition")
	case w.is(i, hi, kwSet), w.is(i, hi, kwValues), w.says(i, hi, "value"):
		if o = w.mysqlValues(o, i, end); ignore && o.strategy == Splice {
			return checkFirst(o, "IGNORE makes a warning of the refusal")
		}
		return o
	}
	return w.mysqlRows(o, i, end)
}

// mysqlQuery reports whether a query begins at i, and not a list of columns.
func (w *walker) mysqlQuery(i, hi int) bool {
	for w.isPunct(i, hi, '(') {
		i++
	}
	return w.is(i, hi, kwSelect) || w.is(i, hi, kwWith) || w.is(i, hi, kwValues) || w.is(i, hi, kwTable)
}

// mysqlUpsert returns where ON DUPLICATE KEY begins, or hi.
func (w *walker) mysqlUpsert(i, hi int) int {
	for ; i < hi; i = w.next(i) {
		if w.is(i, hi, kwOn) && w.says(i+1, hi, "duplicate") && w.says(i+2, hi, "key") {
			return i
		}
	}
	return hi
}

// mysqlValues guards the rows that stand behind VALUES or SET, which is at i, in
// a value of the first one.
func (w *walker) mysqlValues(o outcome, i, end int) outcome {
	const plain = "no value of the first row is a plain literal or a parameter, which could carry the fence"
	first := span{i + 1, end}
	if w.is(i, end, kwSet) {
		if as := w.find(i+1, end, kwAs); as < end { // a row alias
			first.hi = as
		}
	} else {
		if w.says(i+1, end, "row") {
			return checkFirst(o, "VALUES ROW is a query")
		}
		open := i + 1
		if !w.isPunct(open, end, '(') {
			return notUnderstood(o.verb, "its rows are not understood")
		}
		first = span{open + 1, w.partner(open)}
		j := w.next(open)
		for w.isPunct(j, end, ',') && w.isPunct(j+1, end, '(') {
			j = w.next(j + 1)
		}
		if j < end && !(w.tokens[j].word == kwAs && w.name(j+1, end)) {
			return notUnderstood(o.verb, "its rows are not understood")
		}
	}
	set := w.is(i, end, kwSet)
	carrier := -1
	for j := first.lo; j < first.hi; j = w.next(j) {
		if !w.mysqlPlainValue(j) || !w.mysqlValueAlone(j, first, set) {
			continue
		}
		if w.tokens[j].kind != tokenParam {
			carrier = j
			break
		}
		if carrier < 0 {
			carrier = j
		}
	}
	if carrier < 0 {
		return checkFirst(o, plain)
	}
	o.raises, o.wraps = true, w.tokens[carrier].kind == tokenParam
	o.edits = []edit{{at: w.tokens[carrier].start, kind: editValueOpen}, {at: w.tokens[carrier].end(), kind: editValueClose}}
	return o
}

// mysqlPlainValue reports whether the token is a value that means the same as
// the only column of a sub-select. What has no type of its own has not, such as
// 0x41, which is a number or a string depending on where it stands.
func (w *walker) mysqlPlainValue(i int) bool {
	t := &w.tokens[i]
	s := w.spelled(i)
	switch t.kind {
	case tokenParam:
		return true
	case tokenNumber:
		return (isDigit(s[0]) || s[0] == '.') && !(len(s) > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'b'))
	case tokenString:
		return s[0] == '\''
	case tokenWord:
		return w.spells(i, "null") || w.spells(i, "true") || w.spells(i, "false")
	}
	return false
}

// mysqlValueAlone reports whether the token is all of one of the values.
func (w *walker) mysqlValueAlone(i int, row span, set bool) bool {
	if i+1 < row.hi && !w.isPunct(i+1, row.hi, ',') {
		return false
	}
	if !set {
		return i == row.lo || w.tokens[i-1].punct == ','
	}
	// column = value, where nothing of the value stands in front of the equals.
	j := i - 1
	if j <= row.lo || w.spelled(j) != "=" && w.spelled(j) != ":=" {
		return false
	}
	from := j - 1
	for from > row.lo && w.name(from, row.hi) && w.tokens[from-1].punct == '.' && from-2 >= row.lo && w.name(from-2, row.hi) {
		from -= 2
	}
	return w.name(from, row.hi) && (from == row.lo || w.tokens[from-1].punct == ',')
}

// mysqlRows guards the query at i in its HAVING, if it is one query and not
// several that are combined: there, a HAVING is that of one of them.
func (w *walker) mysqlRows(o outcome, i, end int) outcome {
	for w.isPunct(i, end, '(') {
		if w.next(i) != end {
			return checkFirst(o, "the fence would guard one of several queries")
		}
		end = w.partner(i)
		i++
	}
	if w.is(i, end, kwWith) {
		_, main, _, ok := w.withList(i, end)
		if !ok {
			return notUnderstood(o.verb, "its WITH list is not understood")
		}
		i = main
	}
	if w.isPunct(i, end, '(') || w.is(i, end, kwValues) || w.is(i, end, kwTable) {
		return checkFirst(o, "its query takes no condition")
	}
	if !w.is(i, end, kwSelect) {
		return notUnderstood(o.verb, "its rows are not understood")
	}
	having, stop := end, end
	for j := i + 1; j < end; j = w.next(j) {
		switch {
		case w.is(j, end, kwSelect), w.is(j, end, kwUnion), w.is(j, end, kwExcept), w.is(j, end, kwIntersect):
			return checkFirst(o, "the fence would guard one of several queries")
		case w.says(j, end, "qualify"):
			return checkFirst(o, "QUALIFY is a clause to newer servers, and a name to others")
		case stop == end && w.is(j, end, kwHaving):
			having = j
		case stop == end && w.mysqlBehindHaving(j, end):
			stop = j
		}
	}
	if stop == i+1 || having < end && having > stop {
		return notUnderstood(o.verb, "its query is not understood")
	}
	if having == end {
		o.edits = []edit{{at: w.tokens[stop-1].end(), kind: editHaving}}
		return o
	}
	if !w.condition(having+1, stop) {
		return notUnderstood(o.verb, "its HAVING is not understood")
	}
	o.edits = []edit{{at: w.tokens[having+1].start, kind: editWhereOpen}, {at: w.tokens[stop-1].end(), kind: editClose}}
	return o
}

// mysqlBehindHaving reports whether a clause begins at i that stands behind
// HAVING.
func (w *walker) mysqlBehindHaving(i, end int) bool {
	switch w.tokens[i].word {
	case kwOrder: // but USE INDEX FOR ORDER BY
		return w.is(i, end, kwOrder) && w.is(i+1, end, kwBy) && w.tokens[i-1].word != kwFor
	case kwLimit, kwLock, kwFetch, kwProcedure, kwInto:
		return w.is(i, end, w.tokens[i].word)
	case kwFor:
		return w.is(i+1, end, kwUpdate) || w.says(i+1, end, "share")
	case kwOffset: // in front of FETCH
		return w.is(i, end, kwOffset) && w.find(i, end, kwFetch) < end
	}
	return w.says(i, end, "window") && i+2 < end && w.tokens[i+2].word == kwAs && w.isPunct(i+3, end, '(')
}
