package sqlgen

import (
	"slices"
	"strconv"
	"strings"
)

var sqliteRules = rules{
	lex:         lexSQLite,
	statement:   sqliteStatement,
	end:         func(w *walker, lo int) int { return w.endOf(lo, sqliteBody) },
	number:      sqliteParams,
	guard:       appendSQLiteGuard,
	maxParams:   maxSQLiteParams,
	askOnZero:   true,
	stringNames: true,
	lineEnds:    "\n",
	lasting:     transactional,
}

// sqliteBody reports whether the BEGIN at i opens the body of CREATE [TEMP]
// TRIGGER, in the statement that begins at lo.
func sqliteBody(w *walker, lo, i int) bool {
	if !w.is(lo, i, kwCreate) {
		return false
	}
	lo++
	if w.is(lo, i, kwTemp) || w.is(lo, i, kwTemporary) {
		lo++
	}
	return w.is(lo, i, kwTrigger)
}

// appendSQLiteGuard appends the predicate of the fence: true while every token
// is the mark's own. It is judged while the statement holds the write lock of
// main.
func appendSQLiteGuard(b []byte, p *Plan, n int) []byte {
	for i := range n {
		if i > 0 {
			b = append(b, " AND "...)
		}
		k := int64(p.Params + i*TokenParams)
		b = append(b, "EXISTS (SELECT 1 FROM main.sqlfence_fences AS sqlfence_f WHERE sqlfence_f.resource = ?"...)
		b = strconv.AppendInt(b, k+1, 10)
		b = strconv.AppendInt(append(b, " AND sqlfence_f.high_water = ?"...), k+2, 10)
		b = strconv.AppendInt(append(b, " AND sqlfence_f.grant_id = ?"...), k+3, 10)
		b = append(b, ')')
	}
	return b
}

// sqliteStatement finds out about the statement in the range.
func sqliteStatement(w *walker, lo, hi int) outcome {
	t := w.tokens[lo]
	if t.kind != tokenWord {
		return notUnderstood("the text", "it does not begin with a verb")
	}
	verb := w.verb(lo)
	switch t.word {
	case kwWith:
		_, main, _, ok := w.withList(lo, hi)
		if !ok {
			return notUnderstood("WITH", "its WITH list is not understood")
		}
		// SQLite takes no write as a member of a WITH list.
		return w.sqliteMain(main, hi)
	case kwSelect, kwValues, kwInsert, kwReplace, kwUpdate, kwDelete:
		return w.sqliteMain(lo, hi)
	case kwExplain: // never executes
		return pass(KindRead, verb)
	case kwBegin:
		return pass(KindBegin, verb)
	case kwCommit, kwEnd:
		return pass(KindCommit, verb)
	case kwRollback:
		if w.find(lo+1, hi, kwTo) < hi {
			return pass(KindRollbackTo, "ROLLBACK TO")
		}
		return pass(KindRollback, verb)
	case kwSavepoint:
		return pass(KindSavepoint, verb)
	case kwRelease:
		return pass(KindRelease, verb)
	case kwPragma:
		return w.sqlitePragma(lo, hi)
	case kwAttach, kwDetach:
		return refuse(KindAttach, verb, "a change of the connection's databases takes no guard", "run it under guard.Without")
	case kwVacuum:
		return refuse(KindOtherWrite, verb, "it does not run inside of a transaction, in which it would have to be checked",
			"run it under guard.Without")
	case kwReindex, kwAnalyze:
		return checked(KindOtherWrite, verb, "it takes no condition")
	case kwCreate, kwAlter, kwDrop:
		return checked(KindDefinition, verb, "a definition takes no condition")
	}
	return notUnderstood(verb, "an unknown verb")
}

// sqliteQuietPragmas are those that read, or change nothing but how this
// connection works; true: also with a value.
var sqliteQuietPragmas = map[string]bool{
	"application_id": false, "auto_vacuum": false, "encoding": false, "journal_mode": false, "journal_size_limit": false,
	"locking_mode": false, "max_page_count": false, "page_size": false, "schema_version": false, "secure_delete": false,
	"user_version":   false,
	"analysis_limit": true, "automatic_index": true, "busy_timeout": true, "cache_size": true, "cache_spill": true,
	"cell_size_check": true, "collation_list": true, "compile_options": true, "data_version": true, "database_list": true,
	"defer_foreign_keys": true, "foreign_key_check": true, "foreign_key_list": true, "foreign_keys": true,
	"freelist_count": true, "function_list": true, "index_info": true, "index_list": true, "index_xinfo": true,
	"integrity_check": true, "mmap_size": true, "module_list": true, "page_count": true, "pragma_list": true,
	"query_only": true, "quick_check": true, "recursive_triggers": true, "soft_heap_limit": true, "synchronous": true,
	"table_info": true, "table_list": true, "table_xinfo": true, "temp_store": true, "threads": true,
	"wal_autocheckpoint": true, "wal_checkpoint": true,
}

func (w *walker) sqlitePragma(lo, hi int) outcome {
	name, i, ok := w.table(lo+1, hi)
	if ok {
		quiet, known := sqliteQuietPragmas[strings.ToLower(name.Name)]
		if quiet || known && i >= hi {
			return pass(KindSession, "PRAGMA")
		}
		if n := strings.ToLower(name.Name); n == "user_version" || n == "application_id" {
			// Numbers of the program's own in the file, which a migration counts
			// up; they take part in the transaction.
			return checked(KindOtherWrite, "PRAGMA", "it takes no condition")
		}
	}
	return refuse(KindOtherWrite, "PRAGMA", "it may write, or change how the fence is read", "run it under guard.Without")
}

// sqliteMain finds out about the statement behind a WITH list, or without one.
func (w *walker) sqliteMain(main, hi int) outcome {
	i := main + 1
	verb := w.verb(main)
	switch w.tokens[main].word {
	case kwSelect, kwValues:
		return pass(KindRead, verb)
	case kwInsert, kwReplace:
		if w.tokens[main].word == kwInsert {
			i = w.sqliteOr(i, hi)
		}
		if !w.is(i, hi, kwInto) {
			return notUnderstood(verb, "INTO is missing")
		}
		table, i, ok := w.sqliteTable(i+1, hi)
		if ok && w.isPunct(i, hi, '(') {
			i = w.next(i)
		}
		if !ok || i >= hi {
			return notUnderstood(verb, "its table is not understood")
		}
		return w.sqliteInsert(verb, i, hi, table)
	case kwUpdate:
		table, i, ok := w.sqliteTable(w.sqliteOr(i, hi), hi)
		if ok {
			i, ok = w.sqliteIndexed(i, hi)
		}
		if !ok || !w.is(i, hi, kwSet) {
			return notUnderstood(verb, "its table or its SET is not understood")
		}
		return w.sqliteChange(KindUpdate, verb, i+1, hi, table)
	case kwDelete:
		if !w.is(i, hi, kwFrom) {
			return notUnderstood(verb, "FROM is missing")
		}
		table, i, ok := w.sqliteTable(i+1, hi)
		if ok {
			i, ok = w.sqliteIndexed(i, hi)
		}
		if !ok {
			return notUnderstood(verb, "its table is not understood")
		}
		return w.sqliteChange(KindDelete, verb, i, hi, table)
	}
	return notUnderstood("WITH", "the statement behind its WITH list is not understood")
}

// sqliteOr reads OR ROLLBACK, OR IGNORE and their like.
func (w *walker) sqliteOr(i, hi int) int {
	if w.is(i, hi, kwOr) && w.name(i+1, hi) {
		return i + 2
	}
	return i
}

// sqliteTable reads [schema.]table [AS alias].
func (w *walker) sqliteTable(i, hi int) (Table, int, bool) {
	t, i, ok := w.table(i, hi)
	if ok && i < hi && w.tokens[i].word == kwAs {
		return t, i + 2, w.name(i+1, hi)
	}
	return t, i, ok
}

// sqliteIndexed reads INDEXED BY name, or NOT INDEXED.
func (w *walker) sqliteIndexed(i, hi int) (int, bool) {
	if w.is(i, hi, kwNot) && w.is(i+1, hi, kwIndexed) {
		return i + 2, true
	}
	if w.is(i, hi, kwIndexed) && w.is(i+1, hi, kwBy) {
		return i + 3, w.name(i+2, hi)
	}
	return i, true
}

// sqliteChange guards UPDATE and DELETE in their WHERE.
func (w *walker) sqliteChange(kind Kind, verb string, i, hi int, table Table) outcome {
	o := outcome{kind: kind, verb: verb, tables: []Table{table}, strategy: Splice}
	end := w.find(i, hi, kwReturning)
	o.returns = end < hi
	end = w.find(i, end, kwOrder)
	end = w.find(i, end, kwLimit)
	where := w.find(i, end, kwWhere)
	if where == end {
		o.edits = []edit{{at: w.tokens[end-1].end(), kind: editWhere}}
		return w.sqliteMainOnly(o)
	}
	if !w.condition(where+1, end) || w.find(end, hi, kwWhere) != hi {
		return notUnderstood(verb, "its WHERE is not understood")
	}
	if w.tokens[where+1].word == kwWith {
		// To SQLite it is a column there, and behind a bracket a query.
		return checkFirst(o, "a bracket before WITH begins a query")
	}
	// The guard goes last: a named parameter takes its number where it first
	// stands, and those of the condition stay in front of the fence's.
	o.edits = []edit{{at: w.tokens[where+1].start, kind: editOpen}, {at: w.tokens[end-1].end(), kind: editCloseAnd}}
	return w.sqliteMainOnly(o)
}

// sqliteInsert guards INSERT and REPLACE. i is behind the table and its
// columns.
func (w *walker) sqliteInsert(verb string, i, hi int, table Table) outcome {
	o := outcome{kind: KindInsert, verb: verb, tables: []Table{table}, strategy: Splice}
	if w.is(i, hi, kwDefault) {
		return checkFirst(o, "DEFAULT VALUES takes no condition")
	}
	returning := w.find(i, hi, kwReturning)
	o.returns = returning < hi
	end := w.sqliteUpsert(i, returning)
	if end == i {
		return notUnderstood(verb, "its rows are not understood")
	}
	values := w.is(i, hi, kwValues)
	compound, mixed := false, false
	for j := i; j < end; j = w.next(j) {
		compound = compound || w.is(j, end, kwUnion) || w.is(j, end, kwExcept) || w.is(j, end, kwIntersect)
		mixed = mixed || w.is(j, end, kwValues) != (values && j == i)
	}
	last := w.tokens[end-1].end()
	switch {
	case values && w.sqliteAggregates(i, end):
		return checkFirst(o, "an aggregate in VALUES is an error, and behind SELECT is none")
	case values && !compound && !mixed:
		o.edits = []edit{{at: w.tokens[i].start, kind: editRowsOpen}, {at: last, kind: editRowsClose}}
	case values, mixed:
		return checkFirst(o, "a compound query with VALUES takes no LIMIT")
	case end < returning && w.sqliteEndsInFrom(i, end):
		// To SQLite that ON is a join's, and the text no statement.
		return notUnderstood(verb, "ON CONFLICT stands behind FROM without WHERE")
	case w.is(i, hi, kwSelect), w.is(i, hi, kwWith):
		o = w.sqliteLimit(o, i, end)
	default:
		return notUnderstood(verb, "its rows are not understood")
	}
	if o.strategy != Splice {
		return o
	}
	return w.sqliteMainOnly(o)
}

// sqliteAggregateNames are SQLite's own aggregate and window functions.
var sqliteAggregateNames = map[string]bool{
	"avg": true, "count": true, "group_concat": true, "string_agg": true, "max": true, "min": true, "sum": true, "total": true,
	"json_group_array": true, "json_group_object": true, "jsonb_group_array": true, "jsonb_group_object": true,
	"median": true, "percentile": true, "percentile_cont": true, "percentile_disc": true,
}

// sqliteAggregates reports whether the range calls an aggregate or a window
// function outside of a sub-select. A call of one that is the program's own is
// seen by its OVER or FILTER only.
func (w *walker) sqliteAggregates(lo, hi int) bool {
	for i := lo; i+1 < hi; i++ {
		if first := w.tokens[i+1].word; w.tokens[i].punct == '(' && (first == kwSelect || first == kwWith || first == kwValues) {
			i = w.next(i) - 1
			continue
		}
		if !w.name(i, hi) {
			continue
		}
		if w.isPunct(i+1, hi, '(') && (sqliteAggregateNames[strings.ToLower(w.identifier(i))] ||
			w.spells(i, "filter")) ||
			w.spells(i, "over") {
			return true
		}
	}
	return false
}

// sqliteUpsert returns where ON CONFLICT begins, or hi. A join's ON may be
// followed by a column of the name conflict, but not by these.
func (w *walker) sqliteUpsert(i, hi int) int {
	for ; i < hi; i = w.next(i) {
		if w.is(i, hi, kwOn) && i+2 < hi && w.tokens[i+1].word == kwConflict &&
			(w.isPunct(i+2, hi, '(') || w.is(i+2, hi, kwDo)) {
			return i
		}
	}
	return hi
}

// sqliteEndsInFrom reports whether the query's last clause is its FROM.
func (w *walker) sqliteEndsInFrom(i, end int) (from bool) {
	for ; i < end; i = w.next(i) {
		switch {
		case w.is(i, end, kwFrom):
			from = true
		case w.is(i, end, kwSelect), w.is(i, end, kwWhere), w.is(i, end, kwGroup), w.is(i, end, kwOrder), w.is(i, end, kwLimit):
			from = false
		}
	}
	return from
}

// sqliteLimit guards a query by its LIMIT: the order of the rows, their types
// and the number of them stay.
func (w *walker) sqliteLimit(o outcome, i, end int) outcome {
	limit := w.find(i, end, kwLimit)
	if limit == end {
		o.edits = []edit{{at: w.tokens[end-1].end(), kind: editLimit}}
		return o
	}
	from, to := limit+1, end
	for j := from; j < end; j = w.next(j) {
		if w.is(j, end, kwOffset) && j > from { // LIMIT count OFFSET skip
			to = j
			break
		}
		if w.isPunct(j, end, ',') { // LIMIT skip, count
			from = j + 1
			break
		}
	}
	if !w.condition(from, to) {
		return notUnderstood(o.verb, "its LIMIT is not understood")
	}
	o.edits = []edit{{at: w.tokens[from-1].end(), kind: editLimitOpen}, {at: w.tokens[to-1].end(), kind: editLimitClose}}
	return o
}

func checkFirst(o outcome, reason string) outcome {
	o.strategy, o.reason, o.edits = CheckFirst, reason, nil
	return o
}

// sqliteMainOnly: a predicate over main's fence holds only for a statement
// that locks main to write.
func (w *walker) sqliteMainOnly(o outcome) outcome {
	if s := o.tables[0].Schema; s != "" && !strings.EqualFold(s, "main") {
		return checkFirst(o, "the fence is in main, and the statement locks another database")
	}
	return o
}

// sqliteParams gives every parameter its number where the fence goes in.
func sqliteParams(w *walker, s span, o outcome) (outcome, int, int) {
	edits, params, ok := w.sqliteNumber(o.edits)
	switch {
	case o.strategy != Splice:
	case !ok:
		o = checkFirst(o, "a named parameter stands behind the place of the fence")
	case w.namesParameter(s):
		o = checkFirst(o, "a column is named after its text, which would change")
	default:
		o.edits = edits
	}
	return o, params, params
}

// sqliteNumber gives every parameter its number, by SQLite's rule: an
// anonymous one, and a named one at its first place, takes the highest number
// so far plus one. The numbers of the anonymous ones are written into the
// text, so that the fence's own can follow them all wherever they stand.
// ok is false where a named one would take its number behind the fence's.
func (w *walker) sqliteNumber(edits []edit) (all []edit, params int, ok bool) {
	if len(w.params) == 0 {
		return edits, 0, true
	}
	all = make([]edit, 0, len(edits)+len(w.params))
	var named map[string]bool
	ok = true
	highest := int32(0)
	next, behind := 0, false // of edits; the fence's parameters have been put in
	for _, p := range w.params {
		t := &w.tokens[p.at]
		for next < len(edits) && edits[next].at <= t.start {
			all = append(all, edits[next])
			behind = behind || edits[next].kind.hasParams()
			next++
		}
		switch name := w.text[t.start:t.end()]; {
		case p.num > 0:
			highest = max(highest, p.num)
		case name == "?":
			highest++
			all = append(all, edit{at: t.end(), kind: editNumber, num: highest})
		case !named[name]:
			if named == nil {
				named = make(map[string]bool)
			}
			named[name] = true
			highest++
			ok = ok && !behind
		}
	}
	return append(all, edits[next:]...), int(highest), ok
}

// namesParameter reports whether an anonymous parameter stands in the RETURNING
// of the statement: SQLite names a column without an alias after its text, and
// the text would get the parameter's number.
func (w *walker) namesParameter(s span) bool {
	if len(w.params) == 0 {
		return false
	}
	returning := w.find(s.lo, s.hi, kwReturning)
	return slices.ContainsFunc(w.params, func(p param) bool {
		t := &w.tokens[p.at]
		return returning <= int(p.at) && int(p.at) < s.hi && w.text[t.start:t.end()] == "?"
	})
}
