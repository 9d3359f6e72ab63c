package sqlgen

import "strings"

// mysqlInsert finds out about INSERT and REPLACE, whose verb is at lo.
//
// One row becomes SELECT … FROM DUAL HAVING guard: HAVING and not WHERE,
// because a query with an aggregate has a row even where its WHERE is false.
// Several rows stay as they are, because only as VALUES do they get ids that
// follow each other.
func (w *walker) mysqlInsert(lo, hi int) outcome {
	o := outcome{kind: KindInsert, verb: w.verb(lo), strategy: Splice}
	i, delayed := lo+1, false
	for w.says(i, hi, "low_priority") || w.says(i, hi, "high_priority") || w.says(i, hi, "delayed") || w.is(i, hi, kwIgnore) {
		delayed = delayed || w.says(i, hi, "delayed")
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
	returning := w.find(end, hi, kwReturning)
	o.returns = returning < hi
	end = min(end, w.find(i, hi, kwReturning))
	switch {
	case delayed:
		return refuse(o.kind, o.verb, "DELAYED rows are written later, by nobody under no token", "leave out DELAYED").on(table)
	case w.is(i, hi, kwSet):
		return checkFirst(o, "SET takes no condition")
	case w.is(i, hi, kwTable):
		return checkFirst(o, "TABLE takes no condition")
	case (w.is(i, hi, kwValues) || w.says(i, hi, "value")) && end < hi && w.is(end, hi, kwOn):
		return checkFirst(o, "the id of a row that was there already is told for VALUES only")
	case w.is(i, hi, kwValues), w.says(i, hi, "value"):
		return w.mysqlRow(o, i, end)
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

// mysqlRow guards VALUES, which stands at i, if it is one row that says the
// same behind SELECT.
func (w *walker) mysqlRow(o outcome, i, end int) outcome {
	open := i + 1
	if w.says(open, end, "row") {
		return checkFirst(o, "VALUES ROW takes no condition")
	}
	if !w.isPunct(open, end, '(') {
		return notUnderstood(o.verb, "its rows are not understood")
	}
	shut := int(w.match[open])
	switch {
	case w.isPunct(shut+1, end, ','):
		return checkFirst(o, "several rows get consecutive ids only as VALUES")
	case shut+1 < end && w.tokens[shut+1].word == kwAs:
		return checkFirst(o, "a row with an alias takes no condition")
	case shut+1 < end:
		return notUnderstood(o.verb, "its rows are not understood")
	case shut == open+1:
		return checkFirst(o, "a row without values takes no condition")
	}
	if reason := w.mysqlUnlikeSelect(open+1, shut); reason != "" {
		return checkFirst(o, reason)
	}
	o.edits = []edit{
		{at: w.tokens[i].start, num: w.tokens[i].end, kind: editSelect},
		{at: w.tokens[open].start, num: w.tokens[open].end, kind: editBlank},
		{at: w.tokens[shut].start, num: w.tokens[shut].end, kind: editDualHaving},
	}
	return o
}

// mysqlRows guards the query at i in its HAVING, if it is one query and not
// several that are combined: there, a HAVING is that of one of them.
func (w *walker) mysqlRows(o outcome, i, end int) outcome {
	for w.isPunct(i, end, '(') {
		if w.next(i) != end {
			return checkFirst(o, "the fence would guard one of several queries")
		}
		end = int(w.match[i])
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
		o.edits = []edit{{at: w.tokens[stop-1].end, kind: editHaving}}
		return o
	}
	if !w.condition(having+1, stop) {
		return notUnderstood(o.verb, "its HAVING is not understood")
	}
	o.edits = []edit{{at: w.tokens[having+1].start, kind: editWhereOpen}, {at: w.tokens[stop-1].end, kind: editClose}}
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

// mysqlAggregates are the functions that make one row of many.
var mysqlAggregates = map[string]bool{
	"avg": true, "bit_and": true, "bit_or": true, "bit_xor": true, "count": true, "group_concat": true, "json_arrayagg": true,
	"json_objectagg": true, "max": true, "min": true, "std": true, "stddev": true, "stddev_pop": true, "stddev_samp": true,
	"sum": true, "var_pop": true, "var_samp": true, "variance": true,
}

// mysqlPlainWords are those that can stand in a value and are no column's
// name; false: only inside of the brackets of a function, or behind INTERVAL.
var mysqlPlainWords = map[string]bool{
	"and": true, "between": true, "binary": true, "case": true, "collate": true, "current_date": true, "current_role": true,
	"current_time": true, "current_timestamp": true, "current_user": true, "div": true, "else": true, "end": true, "escape": true,
	"false": true, "in": true, "interval": true, "is": true, "like": true, "localtime": true, "localtimestamp": true, "mod": true,
	"not": true, "null": true, "or": true, "regexp": true, "rlike": true, "sounds": true, "then": true, "true": true,
	"unknown": true, "utc_date": true, "utc_time": true, "utc_timestamp": true, "when": true, "xor": true,

	"array": false, "both": false, "char": false, "character": false, "charset": false, "date": false, "datetime": false,
	"day": false, "day_hour": false, "day_microsecond": false, "day_minute": false, "day_second": false, "decimal": false,
	"double": false, "float": false, "for": false, "from": false, "hour": false, "hour_microsecond": false, "hour_minute": false,
	"hour_second": false, "int": false, "integer": false, "json": false, "leading": false, "microsecond": false, "minute": false,
	"minute_microsecond": false, "minute_second": false, "month": false, "nchar": false, "numeric": false, "precision": false,
	"quarter": false, "real": false, "second": false, "second_microsecond": false, "set": false, "signed": false, "time": false,
	"timestamp": false, "trailing": false, "unsigned": false, "varchar": false, "week": false, "year": false, "year_month": false,
}

// mysqlUnlikeSelect returns why the values in the range would say something
// else as columns of a SELECT, or "". Behind VALUES, a name is a column of the
// table itself, and DEFAULT is its default.
func (w *walker) mysqlUnlikeSelect(lo, hi int) string {
	depth, function, interval := 0, 0, false
	for i := lo; i < hi; i++ {
		t := &w.tokens[i]
		switch {
		case t.punct == '(':
			depth++
			if w.tokens[i-1].kind == tokenWord || w.tokens[i-1].kind == tokenQuoted {
				function++
			}
		case t.punct == ')':
			depth--
			if depth == 0 {
				function = 0
			}
		case t.punct == ',':
			interval = false
		case t.punct == '.':
		case t.kind == tokenPunct:
			return "its values are not understood"
		case t.kind == tokenOp || t.kind == tokenVariable || t.kind == tokenNumber || t.kind == tokenParam:
		case t.kind == tokenString:
			if k := w.tokens[i-1].kind; i > lo && (k == tokenNumber || k == tokenParam || k == tokenVariable || w.tokens[i-1].punct == ')') {
				return "behind SELECT, a string there is a name"
			}
		case w.isPunct(i+1, hi, '.') || w.tokens[i-1].punct == '.' && !w.isPunct(i+1, hi, '('):
			if !w.calls(i, hi) {
				return "it reads a column of the row"
			}
		case t.kind == tokenQuoted:
			if !w.isPunct(i+1, hi, '(') {
				return "it reads a column of the row"
			}
		default:
			word := strings.ToLower(w.spelled(i))
			plain, known := mysqlPlainWords[word]
			switch {
			case t.word == kwSelect || t.word == kwWith || t.word == kwValues || t.word == kwTable:
				return "a sub-select may read the table itself"
			case t.word == kwDefault:
				return "DEFAULT stands in VALUES only"
			case mysqlAggregates[word]:
				return "an aggregate in VALUES is an error, and behind SELECT is none"
			case plain:
				interval = interval || word == "interval"
			case w.isPunct(i+1, hi, '('): // a function
			case word[0] == '_' && i+1 < hi && (w.tokens[i+1].kind == tokenString || w.tokens[i+1].kind == tokenNumber):
			case (word == "date" || word == "time" || word == "timestamp") && i+1 < hi && w.tokens[i+1].kind == tokenString:
			case w.tokens[i-1].word != notKeyword && i > lo && strings.EqualFold(w.spelled(i-1), "using") && function > 0:
			case i > lo && w.spells(i-1, "collate"):
			case word == "as" && function > 0, word == "using" && function > 0:
			case known && (function > 0 || interval):
			default:
				return "it reads a column of the row"
			}
		}
	}
	return ""
}

// calls reports whether the qualified name that the token at i is part of is
// that of a function.
func (w *walker) calls(i, hi int) bool {
	for w.isPunct(i+1, hi, '.') {
		i += 2
	}
	return w.isPunct(i+1, hi, '(')
}
