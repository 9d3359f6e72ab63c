package sqlgen

import (
	"strconv"
	"strings"
)

// postgresHead is the WITH members that hold the check. A data-modifying
// member always runs, once and to its end, also unreferenced and also where
// the planner folds the statement's own condition to false; table nothing
// never holds a row (DESIGN §3).
//
// With check, a member of its own asks first and its answer is read by the
// statement's WHERE too, so that a stale owner's rows are not even looked at.
func postgresHead(suffix string, params, n int, check bool) string {
	asked := postgresPass(params, n)
	if check {
		k := "sqlfence_k" + suffix
		return k + " AS MATERIALIZED (SELECT " + asked + " AS ok), sqlfence_guard" + suffix +
			" AS (INSERT INTO sqlfence.nothing SELECT FROM " + k + " WHERE NOT " + k + ".ok)"
	}
	return "sqlfence_guard" + suffix + " AS (INSERT INTO sqlfence.nothing SELECT WHERE NOT (SELECT " + asked + "))"
}

// postgresPass asks about the tokens in the order given: a CASE is evaluated
// from left to right, an AND need not be.
func postgresPass(params, n int) string {
	var b strings.Builder
	for i := range n {
		k := params + i*TokenParams
		if i < n-1 {
			b.WriteString("CASE WHEN ")
		}
		b.WriteString("sqlfence.pass($" + strconv.Itoa(k+1) + "::pg_catalog.text, $" +
			strconv.Itoa(k+2) + "::pg_catalog.int8, $" + strconv.Itoa(k+3) + "::pg_catalog.int8)")
		if i < n-1 {
			b.WriteString(" THEN ")
		}
	}
	for range n - 1 {
		b.WriteString(" ELSE false END")
	}
	return b.String()
}

// postgresStatement finds out about the statement in the range.
func postgresStatement(w *walker, lo, hi int) outcome {
	t := w.tokens[lo]
	if t.punct == '(' {
		return w.postgresRead(lo, lo, hi, "SELECT", nil)
	}
	if t.kind != tokenWord {
		return notUnderstood("the text", "it does not begin with a verb")
	}
	verb := strings.ToUpper(w.text[t.start:t.end])
	second := notKeyword
	if lo+1 < hi {
		second = w.tokens[lo+1].word
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
	case kwExplain:
		return w.postgresExplain(lo, hi)
	case kwDeclare:
		// DECLARE … CURSOR … FOR query: the server takes no writing query.
		if w.writesInBrackets(lo, hi) {
			return notUnderstood(verb, "a write inside of a cursor's query")
		}
		return pass(KindRead, verb)
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
		if second == kwTransaction {
			return pass(KindPrepareTx, "PREPARE TRANSACTION")
		}
		return refuse(KindOtherWrite, verb, "what it prepares is executed later, under nobody's token",
			"prepare through database/sql: the executing context decides")
	case kwSet, kwReset, kwShow, kwListen, kwUnlisten, kwNotify, kwDeallocate, kwClose, kwFetch, kwMove, kwLock, kwDiscard:
		return pass(KindSession, verb)
	case kwTruncate:
		return refuse(KindOtherWrite, verb, "it takes no WITH", "use DELETE, or "+adviceCheck).on(w.postgresTruncated(lo+1, hi)...)
	case kwCopy:
		o := refuse(KindOtherWrite, verb, "it takes no WITH", "use INSERT, or "+adviceCheck)
		if table, _, ok := w.table(lo+1, hi); ok {
			o.tables = []Table{table}
		}
		return o
	case kwCall, kwDo:
		return refuse(KindOtherWrite, verb, "what it runs cannot be seen, and it may commit", adviceCheck)
	case kwExecute:
		return refuse(KindOtherWrite, verb, "what it runs cannot be seen", "prepare through database/sql, or "+adviceCheck)
	case kwRefresh, kwVacuum, kwAnalyze, kwCluster, kwReindex, kwCheckpoint, kwLoad:
		return refuse(KindOtherWrite, verb, "it takes no WITH", "run it under guard.Without")
	case kwCreate:
		// CREATE TABLE … AS writes the rows of a query.
		for i := lo; i < hi; i = w.next(i) {
			if w.tokens[i].word != kwAs || i+1 >= hi {
				continue
			}
			next := w.tokens[i+1]
			if next.punct == '(' || next.word == kwSelect || next.word == kwWith || next.word == kwValues ||
				next.word == kwTable || next.word == kwExecute {
				if w.postgresDefines(lo, i) {
					break
				}
				return refuse(KindOtherWrite, "CREATE TABLE AS", "it takes no guard", "create the table, then INSERT into it; or "+adviceCheck)
			}
		}
		return w.postgresDefinition(verb)
	case kwAlter, kwDrop, kwGrant, kwRevoke, kwComment, kwSecurity, kwReassign, kwImport:
		return w.postgresDefinition(verb)
	}
	return notUnderstood(verb, "an unknown verb")
}

func (w *walker) postgresDefinition(verb string) outcome {
	return refuse(KindDefinition, verb, "a definition takes no guard", "run it under guard.Without, or "+adviceCheck)
}

// postgresDefines reports whether CREATE … AS at lo defines a view, a function
// or a rule, which writes no row. A materialized view does.
func (w *walker) postgresDefines(lo, as int) bool {
	for i := lo + 1; i < as; i++ {
		t := w.tokens[i]
		if t.kind != tokenWord {
			return false
		}
		switch strings.ToUpper(w.text[t.start:t.end]) {
		case "VIEW", "FUNCTION", "PROCEDURE", "RULE", "CAST", "TYPE", "DOMAIN", "SEQUENCE", "STATISTICS", "TRIGGER", "POLICY", "INDEX":
			return true
		case "MATERIALIZED", "TABLE":
			return false
		}
	}
	return false
}

func (w *walker) postgresTruncated(i, hi int) (tables []Table) {
	if w.is(i, hi, kwTable) {
		i++
	}
	for {
		table, next, ok := w.postgresRelation(i, hi)
		if !ok {
			return nil
		}
		tables = append(tables, table)
		if i = next; !w.isPunct(i, hi, ',') {
			return tables
		}
		i++
	}
}

// postgresExplain: EXPLAIN runs the statement only with ANALYZE.
func (w *walker) postgresExplain(lo, hi int) outcome {
	analyze := false
	i := lo + 1
	if w.isPunct(i, hi, '(') {
		for j := i; j < w.next(i); j++ {
			analyze = analyze || w.tokens[j].word == kwAnalyze || w.wordIs(j, "ANALYSE")
		}
		i = w.next(i)
	} else {
		for w.is(i, hi, kwAnalyze) || w.is(i, hi, kwVerbose) || w.wordIs(i, "ANALYSE") {
			analyze = analyze || w.tokens[i].word != kwVerbose
			i++
		}
	}
	if i >= hi {
		return notUnderstood("EXPLAIN", "there is nothing to explain")
	}
	if !analyze {
		return pass(KindRead, "EXPLAIN")
	}
	o := postgresStatement(w, i, hi)
	if o.strategy == Pass && o.kind == KindRead {
		return pass(KindRead, "EXPLAIN ANALYZE")
	}
	return refuse(KindOtherWrite, "EXPLAIN ANALYZE", "it executes a write", "explain without ANALYZE, or "+adviceCheck).on(o.tables...)
}

func (w *walker) wordIs(i int, upper string) bool {
	t := w.tokens[i]
	return t.kind == tokenWord && strings.EqualFold(w.text[t.start:t.end], upper)
}

// postgresMain finds out about a statement that can have a WITH list. start is
// its first token, main that of the statement behind the list.
func (w *walker) postgresMain(start, main, hi int, ctes []cte) outcome {
	var tables []Table
	writing, known := false, true
	for _, c := range ctes {
		if c.open == c.shut {
			return notUnderstood("WITH", "an empty member of its WITH list")
		}
		o := postgresStatement(w, c.open, c.shut)
		switch o.kind {
		case KindRead:
		case KindInsert, KindUpdate, KindDelete, KindMerge:
			if o.strategy == Refuse {
				return o
			}
			writing = true
			tables = append(tables, o.tables...)
			known = known && o.tables != nil
		default:
			return notUnderstood("WITH", "a member of its WITH list is neither a query nor a plain write")
		}
	}
	o := w.postgresVerb(start, main, hi, ctes)
	switch {
	case o.strategy == Refuse:
		return o
	case o.kind == KindRead && !writing:
		return o
	case o.kind == KindRead:
		o = outcome{kind: KindWriteInWith, verb: o.verb, strategy: Splice, edits: w.headEdit(start)}
	}
	known = known && (o.kind == KindWriteInWith || o.tables != nil)
	if o.tables = append(tables, o.tables...); !known {
		o.tables = nil
	}
	return o
}

// headEdit puts our members in front of the statement's WITH list, or gives it
// one.
func (w *walker) headEdit(start int) []edit {
	if w.tokens[start].word != kwWith {
		return []edit{{at: w.tokens[start].start, kind: editHead}}
	}
	if start+1 < len(w.tokens) && w.tokens[start+1].word == kwRecursive {
		start++
	}
	return []edit{{at: w.tokens[start].end, kind: editList}}
}

func (w *walker) postgresVerb(start, main, hi int, ctes []cte) outcome {
	i := main + 1
	switch w.tokens[main].word {
	case kwInsert:
		if !w.is(i, hi, kwInto) {
			return notUnderstood("INSERT", "INTO is missing")
		}
		table, _, ok := w.table(i+1, hi)
		return w.postgresWrite(KindInsert, "INSERT", start, main, hi, table, ok)
	case kwMerge:
		if !w.is(i, hi, kwInto) {
			return notUnderstood("MERGE", "INTO is missing")
		}
		table, _, ok := w.postgresRelation(i+1, hi)
		return w.postgresWrite(KindMerge, "MERGE", start, main, hi, table, ok)
	case kwUpdate:
		table, i, ok := w.postgresRelation(i, hi)
		if ok {
			i, ok = w.postgresAlias(i, hi, kwSet)
		}
		if !ok || !w.is(i, hi, kwSet) {
			return notUnderstood("UPDATE", "its table or its SET is not understood")
		}
		return w.postgresChange(KindUpdate, "UPDATE", start, main, i+1, hi, table)
	case kwDelete:
		if !w.is(i, hi, kwFrom) {
			return notUnderstood("DELETE", "FROM is missing")
		}
		table, i, ok := w.postgresRelation(i+1, hi)
		if !ok {
			return notUnderstood("DELETE", "its table is not understood")
		}
		return w.postgresChange(KindDelete, "DELETE", start, main, i, hi, table)
	case kwSelect, kwValues, kwTable:
		return w.postgresRead(main, start, hi, strings.ToUpper(w.text[w.tokens[main].start:w.tokens[main].end]), ctes)
	}
	if w.tokens[main].punct == '(' {
		return w.postgresRead(main, start, hi, "SELECT", ctes)
	}
	return notUnderstood("WITH", "the statement behind its WITH list is not understood")
}

// postgresWrite guards a statement at its head alone.
func (w *walker) postgresWrite(kind Kind, verb string, start, main, hi int, table Table, ok bool) outcome {
	if !ok {
		return notUnderstood(verb, "its table is not understood")
	}
	if w.writesInBrackets(main, hi) {
		return notUnderstood(verb, "a write inside of brackets")
	}
	return outcome{kind: kind, verb: verb, tables: []Table{table}, strategy: Splice, edits: w.headEdit(start)}
}

// postgresChange guards UPDATE and DELETE: at the head, and first in the
// WHERE. i is behind SET, or behind the table of a DELETE.
func (w *walker) postgresChange(kind Kind, verb string, start, main, i, hi int, table Table) outcome {
	o := w.postgresWrite(kind, verb, start, main, hi, table, true)
	if o.strategy != Splice {
		return o
	}
	returning := w.find(i, hi, kwReturning)
	where := w.find(i, returning, kwWhere)
	if where == returning {
		o.check = true
		o.edits = append(o.edits, edit{at: w.tokens[returning-1].end, kind: editWhere})
		return o
	}
	if where+1 == returning || w.find(where+1, returning, kwWhere) != returning {
		return notUnderstood(verb, "its WHERE is not understood")
	}
	if w.is(where+1, returning, kwCurrent) && w.is(where+2, returning, kwOf) {
		return o // WHERE CURRENT OF takes no other condition
	}
	o.check = true
	o.edits = append(o.edits,
		edit{at: w.tokens[where+1].start, kind: editWhereOpen},
		// The end of the last token: a comment behind it cannot swallow the
		// bracket (CASES D22).
		edit{at: w.tokens[returning-1].end, kind: editClose})
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
	if ok && !only && i < hi && w.tokens[i].kind == tokenOp && w.text[w.tokens[i].start:w.tokens[i].end] == "*" {
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
func (w *walker) postgresRead(main, start, hi int, verb string, ctes []cte) outcome {
	for i := main; i < hi; i++ {
		// INTO is reserved: in a query it can only be SELECT … INTO table.
		if w.is(i, hi, kwInto) && !w.inserts(i) {
			o := refuse(KindOtherWrite, "SELECT INTO", "it takes no guard", "create the table, then INSERT into it; or "+adviceCheck)
			if w.is(i+1, hi, kwTable) {
				i++
			}
			if t, _, ok := w.table(i+1, hi); ok {
				o.tables = []Table{t}
			}
			return o
		}
	}
	if w.writesInBrackets(main, hi) {
		return notUnderstood(verb, "a write inside of brackets")
	}
	for _, c := range ctes {
		// The members' own statements are looked at by the caller; their inner
		// ones must not write.
		if w.writesInBrackets(c.open, c.shut) {
			return notUnderstood(verb, "a write inside of a member of its WITH list")
		}
	}
	return pass(KindRead, verb)
}

// inserts reports whether the INTO at i belongs to INSERT INTO or MERGE INTO.
func (w *walker) inserts(i int) bool {
	return i > 0 && (w.tokens[i-1].word == kwInsert || w.tokens[i-1].word == kwMerge) && !w.isLabel(i-1)
}

// writesInBrackets reports whether a write begins behind an opening bracket
// inside the range. PostgreSQL takes one only as a member of the outermost
// WITH list; anywhere else the text is refused here rather than there.
func (w *walker) writesInBrackets(lo, hi int) bool {
	for i := lo; i < hi; i++ {
		if w.tokens[i].punct != '(' || i+1 >= hi {
			continue
		}
		j := i + 1
		switch w.tokens[j].word {
		case kwInsert, kwMerge:
			if w.is(j+1, hi, kwInto) {
				return true
			}
		case kwDelete:
			if w.is(j+1, hi, kwFrom) {
				return true
			}
		case kwUpdate:
			if _, k, ok := w.postgresRelation(j+1, hi); ok {
				if k, ok = w.postgresAlias(k, hi, kwSet); ok && w.is(k, hi, kwSet) {
					return true
				}
			}
		}
	}
	return false
}
