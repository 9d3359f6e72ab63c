package sqlgen

import "strconv"

var postgresRules = rules{
	lex:          lexPostgres,
	statement:    postgresStatement,
	end:          func(w *walker, lo int) int { return w.endOf(lo, postgresBody) },
	number:       postgresNumber,
	guard:        appendPostgresGuard,
	maxParams:    maxPostgresParams,
	maxName:      63,
	valuesColumn: true,
	lineEnds:     "\n\r",
	lasting:      transactional,
}

// postgresBody reports whether the BEGIN at i opens the body of CREATE [OR
// REPLACE] FUNCTION or PROCEDURE, in the statement that begins at lo.
func postgresBody(w *walker, lo, i int) bool {
	if !w.is(lo, i, kwCreate) || w.isLabel(i) {
		return false
	}
	lo++
	if w.is(lo, i, kwOr) && w.is(lo+1, i, kwReplace) {
		lo += 2
	}
	return (w.is(lo, i, kwFunction) || w.is(lo, i, kwProcedure)) && w.is(i+1, len(w.tokens), kwAtomic)
}

// postgresNumber: the fence's parameters follow the highest of the user's.
func postgresNumber(w *walker, _ span, o outcome) (outcome, int, int) {
	n := w.highest()
	return o, n, n
}

// appendPostgresHead appends the WITH members that hold the check. A
// data-modifying member always runs, once and to its end, also unreferenced and
// also where the planner folds the statement's own condition to false; table
// nothing never holds a row (DESIGN §3).
//
// With check, a member of its own asks first and its answer is read by the
// statement's WHERE too, so that a stale owner's rows are not even looked at.
func appendPostgresHead(b []byte, suffix string, params, n int, check, untilExpiry bool) []byte {
	put := func(texts ...string) {
		for _, t := range texts {
			b = append(b, t...)
		}
	}
	if check {
		put("sqlfence_k", suffix, " AS MATERIALIZED (SELECT ")
		b = appendPostgresPass(b, params, n, untilExpiry)
		put(" AS ok), sqlfence_guard", suffix, " AS (INSERT INTO sqlfence.nothing SELECT FROM sqlfence_k", suffix,
			" WHERE NOT sqlfence_k", suffix, ".ok)")
		return b
	}
	put("sqlfence_guard", suffix, " AS (INSERT INTO sqlfence.nothing SELECT WHERE NOT (SELECT ")
	b = appendPostgresPass(b, params, n, untilExpiry)
	put("))")
	return b
}

func appendPostgresGuard(b []byte, p *Plan, _ int) []byte {
	b = append(append(b, "(SELECT sqlfence_k"...), p.suffix...)
	b = append(append(b, ".ok FROM sqlfence_k"...), p.suffix...)
	return append(b, ')')
}

// appendPostgresPass asks about the tokens in the order given: a CASE is
// evaluated from left to right, an AND need not be.
func appendPostgresPass(b []byte, params, n int, untilExpiry bool) []byte {
	pass := "sqlfence.pass($"
	if untilExpiry {
		pass = "sqlfence.pass_unexpired($"
	}
	for i := range n {
		k := int64(params + i*TokenParams)
		if i < n-1 {
			b = append(b, "CASE WHEN "...)
		}
		b = strconv.AppendInt(append(b, pass...), k+1, 10)
		b = strconv.AppendInt(append(b, "::pg_catalog.text, $"...), k+2, 10)
		b = strconv.AppendInt(append(b, "::pg_catalog.int8, $"...), k+3, 10)
		b = append(b, "::pg_catalog.int8)"...)
		if i < n-1 {
			b = append(b, " THEN "...)
		}
	}
	for range n - 1 {
		b = append(b, " ELSE false END"...)
	}
	return b
}

// postgresStatement finds out about the statement in the range.
func postgresStatement(w *walker, lo, hi int) outcome {
	t := &w.tokens[lo]
	if t.kind != tokenWord && t.punct != '(' {
		return notUnderstood("the text", "it does not begin with a verb")
	}
	verb := w.verb(lo)
	second := notKeyword
	if lo+1 < hi {
		second = w.tokens[lo+1].word
	}
	if t.punct == '(' {
		return w.postgresMain(lo, lo, hi, nil)
	}
	switch t.word {
	case kwWith:
		_, main, ctes, ok := w.withList(lo, hi)
		if !ok {
			return notUnderstood("WITH", "its WITH list is not understood")
		}
		return w.postgresMain(lo, main, hi, ctes)
	case kwSelect, kwValues, kwTable, kwInsert, kwUpdate, kwDelete, kwMerge:
		return w.postgresMain(lo, lo, hi, nil)
	case kwBegin, kwStart:
		return pass(KindBegin, verb)
	case kwCommit, kwEnd:
		if second == kwPrepared {
			return pass(KindPrepareTx, "COMMIT PREPARED")
		}
		return pass(KindCommit, verb)
	case kwRollback, kwAbort:
		i := lo + 1
		if w.is(i, hi, kwWork) || w.is(i, hi, kwTransaction) {
			i++
		}
		switch {
		case second == kwPrepared:
			return pass(KindPrepareTx, "ROLLBACK PREPARED")
		case w.is(i, hi, kwTo):
			return pass(KindRollbackTo, "ROLLBACK TO")
		}
		return pass(KindRollback, verb)
	case kwSavepoint:
		return pass(KindSavepoint, verb)
	case kwRelease:
		return pass(KindRelease, verb)
	case kwPrepare:
		if second == kwTransaction && lo+2 < hi && w.tokens[lo+2].kind == tokenString {
			return pass(KindPrepareTx, "PREPARE TRANSACTION")
		}
	}
	return w.postgresUtility(lo, hi)
}

// postgresMain finds out about a statement that can have a WITH list. start is
// its first token, main that of the statement behind the list.
func (w *walker) postgresMain(start, main, hi int, ctes []cte) outcome {
	verb := w.verb(main)
	if w.tokens[main].punct == '(' {
		verb = "SELECT"
	}
	var tables []Table
	for _, c := range ctes {
		switch kind, table, reason := w.postgresMember(c); kind {
		case KindRead:
		case KindUnknown:
			return notUnderstood("WITH", reason)
		default:
			tables = append(tables, table)
		}
	}
	// PostgreSQL takes a write as the main statement and as a member of its
	// WITH list. One anywhere else is refused here rather than there.
	writes, intos := w.writesInBrackets(start, hi)
	if writes != len(tables) {
		return notUnderstood(verb, "a write inside of brackets")
	}
	if w.postgresReads(main) {
		o := w.postgresRead(main, hi, verb)
		if o.strategy == Pass && w.count(start, hi, kwInto) != intos {
			return notUnderstood(verb, "a SELECT INTO in its WITH list")
		}
		if len(tables) > 0 {
			if o.strategy != Pass {
				return o.on()
			}
			o = outcome{kind: KindWriteInWith, verb: verb, tables: tables, strategy: Splice, edits: w.headEdit(start)}
		}
		return o
	}
	kind, table, i, reason := w.postgresTarget(main, hi)
	if kind == KindUnknown {
		return notUnderstood(verb, reason)
	}
	if kind == KindInsert || kind == KindMerge {
		intos++
	}
	if w.count(start, hi, kwInto) != intos {
		return notUnderstood(verb, "a SELECT INTO inside of it")
	}
	o := outcome{kind: kind, verb: verb, tables: append(tables, table), strategy: Splice, edits: w.headEdit(start)}
	if kind == KindUpdate || kind == KindDelete {
		return w.postgresChange(o, i, hi)
	}
	return o
}

// postgresReads reports whether a query begins at i.
func (w *walker) postgresReads(i int) bool {
	t := &w.tokens[i]
	return t.word == kwSelect || t.word == kwValues || t.word == kwTable || t.punct == '('
}

// postgresMember finds out about a member of a WITH list. The table is that of
// a write.
func (w *walker) postgresMember(c cte) (kind Kind, table Table, reason string) {
	i := c.open
	if i == c.shut {
		return KindUnknown, table, "an empty member of its WITH list"
	}
	if w.tokens[i].word == kwWith {
		var ok bool
		if _, i, _, ok = w.withList(i, c.shut); !ok {
			return KindUnknown, table, "a WITH list inside of its WITH list is not understood"
		}
	}
	if w.postgresReads(i) {
		return KindRead, table, ""
	}
	kind, table, _, reason = w.postgresTarget(i, c.shut)
	return kind, table, reason
}

// postgresTarget reads the beginning of a write, which stands at i. next is
// behind the SET of an UPDATE, and behind the table of the others.
func (w *walker) postgresTarget(i, hi int) (kind Kind, table Table, next int, reason string) {
	verb, i := w.tokens[i].word, i+1
	ok := false
	switch verb {
	case kwInsert:
		if !w.is(i, hi, kwInto) {
			return KindUnknown, table, i, "INTO is missing"
		}
		kind = KindInsert
		table, i, ok = w.table(i+1, hi)
	case kwMerge:
		if !w.is(i, hi, kwInto) {
			return KindUnknown, table, i, "INTO is missing"
		}
		kind = KindMerge
		table, i, ok = w.postgresRelation(i+1, hi)
	case kwUpdate:
		kind = KindUpdate
		if table, i, ok = w.postgresRelation(i, hi); ok {
			if i, ok = w.postgresAlias(i, hi, kwSet); ok && !w.is(i, hi, kwSet) {
				return KindUnknown, table, i, "its SET is not understood"
			}
			i++
		}
	case kwDelete:
		if !w.is(i, hi, kwFrom) {
			return KindUnknown, table, i, "FROM is missing"
		}
		kind = KindDelete
		table, i, ok = w.postgresRelation(i+1, hi)
	default:
		return KindUnknown, table, i, "the statement is not understood"
	}
	if !ok {
		return KindUnknown, table, i, "its table is not understood"
	}
	return kind, table, i, ""
}

// headEdit puts our members in front of the statement's WITH list, or gives it
// one.
func (w *walker) headEdit(start int) []edit {
	edits := make([]edit, 1, 3)
	if w.tokens[start].word != kwWith {
		edits[0] = edit{at: w.tokens[start].start, kind: editHead}
		return edits
	}
	if w.recursive(start+1, len(w.tokens)) {
		start++
	}
	edits[0] = edit{at: w.tokens[start].end(), kind: editList}
	return edits
}

// postgresChange guards UPDATE and DELETE, which have their guard at the head
// already, first in the WHERE too. i is behind SET, or behind the table of a
// DELETE.
func (w *walker) postgresChange(o outcome, i, hi int) outcome {
	returning := w.find(i, hi, kwReturning)
	where := w.find(i, returning, kwWhere)
	if where == returning {
		o.check = true
		o.edits = append(o.edits, edit{at: w.tokens[returning-1].end(), kind: editWhere})
		return o
	}
	if w.is(where+1, returning, kwCurrent) && w.is(where+2, returning, kwOf) {
		return o // WHERE CURRENT OF takes no other condition
	}
	if !w.condition(where+1, returning) {
		return notUnderstood(o.verb, "its WHERE is not understood")
	}
	o.check = true
	o.edits = append(o.edits,
		edit{at: w.tokens[where+1].start, kind: editWhereOpen},
		// The end of the last token: a comment behind it cannot swallow the
		// bracket (CASES D22).
		edit{at: w.tokens[returning-1].end(), kind: editClose})
	return o
}

// postgresRelation reads [ONLY] name [*], or ONLY (name).
func (w *walker) postgresRelation(i, hi int) (Table, int, bool) {
	only := w.is(i, hi, kwOnly)
	if only {
		i++
		if w.isPunct(i, hi, '(') {
			t, next, ok := w.table(i+1, hi)
			return t, next + 1, ok && w.isPunct(next, hi, ')')
		}
	}
	t, i, ok := w.table(i, hi)
	if ok && !only && i < hi && w.tokens[i].kind == tokenOp && w.text[w.tokens[i].start:w.tokens[i].end()] == "*" {
		i++
	}
	return t, i, ok
}

// postgresAlias reads [[AS] alias] in front of the keyword. An alias spelled
// like the keyword needs its AS.
func (w *walker) postgresAlias(i, hi int, before keyword) (int, bool) {
	if i < hi && w.tokens[i].word == kwAs {
		return i + 2, w.name(i+1, hi)
	}
	if w.name(i, hi) && w.tokens[i].word != before {
		return i + 1, true
	}
	return i, true
}

// postgresRead is for a query: it must not write after all.
func (w *walker) postgresRead(main, hi int, verb string) outcome {
	for i := main; i < hi; i++ {
		// INTO is reserved: without a write in brackets it can only be that of
		// SELECT … INTO table, also behind a column of the name insert.
		if w.is(i, hi, kwInto) {
			o := outcome{kind: KindOtherWrite, verb: "SELECT INTO", strategy: CheckFirst, reason: "it makes a table"}
			i++
			for w.is(i, hi, kwTemp) || w.is(i, hi, kwTemporary) || w.is(i, hi, kwLocal) || w.is(i, hi, kwGlobal) || w.is(i, hi, kwUnlogged) {
				i++
			}
			if w.is(i, hi, kwTable) {
				i++
			}
			if t, _, ok := w.table(i, hi); ok {
				o.tables = []Table{t}
			}
			return o
		}
	}
	return pass(KindRead, verb)
}

// writesInBrackets counts the writes that begin behind an opening bracket
// inside the range, with a WITH list of their own or without, and those of them
// that have an INTO.
func (w *walker) writesInBrackets(lo, hi int) (writes, intos int) {
	for i := lo; i < hi; i++ {
		if w.tokens[i].punct != '(' {
			continue
		}
		j, shut := i+1, w.partner(i)
		if w.tokens[j].word == kwWith {
			if _, main, _, ok := w.withList(j, shut); ok {
				j = main
			}
		}
		switch w.tokens[j].word {
		case kwInsert, kwMerge:
			if w.is(j+1, shut, kwInto) {
				writes++
				intos++
			}
		case kwDelete:
			if w.is(j+1, shut, kwFrom) {
				writes++
			}
		case kwUpdate:
			if w.find(j+1, shut, kwSet) < shut {
				writes++
			}
		}
	}
	return writes, intos
}
