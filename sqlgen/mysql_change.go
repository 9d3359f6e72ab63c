package sqlgen

// mysqlUpdate finds out about an UPDATE whose verb is at i, of one table or of
// several.
func (w *walker) mysqlUpdate(i, hi int) outcome {
	const verb = "UPDATE"
	for i++; w.says(i, hi, "low_priority") || w.is(i, hi, kwIgnore); {
		i++
	}
	set := w.find(i, hi, kwSet)
	if set == hi || set == i {
		return notUnderstood(verb, "its SET is not understood")
	}
	refs, ok := w.mysqlRefs(i, set, nil)
	if !ok || len(refs) == 0 {
		return notUnderstood(verb, "its table is not understood")
	}
	end := w.mysqlClauses(set+1, hi)
	o := outcome{kind: KindUpdate, verb: verb, tables: w.mysqlAssigned(set+1, w.find(set+1, end, kwWhere), refs)}
	return w.mysqlChange(o, set+1, end, hi)
}

// mysqlDelete finds out about a DELETE whose verb is at i, of one table or of
// several.
func (w *walker) mysqlDelete(i, hi int) outcome {
	o := outcome{kind: KindDelete, verb: "DELETE"}
	for i++; w.says(i, hi, "low_priority") || w.says(i, hi, "quick") || w.is(i, hi, kwIgnore); {
		i++
	}
	if w.says(i, hi, "history") && w.is(i+1, hi, kwFrom) {
		return checkFirst(o, "DELETE HISTORY takes no condition")
	}
	from := i
	if !w.is(i, hi, kwFrom) { // DELETE a, b FROM …
		if from = w.find(i, hi, kwFrom); from == hi {
			return notUnderstood(o.verb, "FROM is missing")
		}
		return w.mysqlDeleteSeveral(o, span{i, from}, from+1, hi)
	}
	if using := w.find(i, w.find(i, hi, kwWhere), kwUsing); using < hi && w.is(using, hi, kwUsing) { // DELETE FROM a, b USING …
		return w.mysqlDeleteSeveral(o, span{i + 1, using}, using+1, hi)
	}
	table, i, ok := w.table(from+1, hi)
	if ok && w.is(i, hi, kwPartition) && w.isPunct(i+1, hi, '(') {
		i = w.next(i + 1)
	}
	if ok && i < hi && w.tokens[i].word == kwAs {
		ok = w.name(i+1, hi)
		i += 2
	} else if ok && w.name(i, hi) && !w.mysqlBehindTable(i) {
		i++
	}
	end := w.mysqlClauses(i, hi)
	if ok && w.is(i, hi, kwFor) { // FOR PORTION OF period FROM a TO b
		i = w.find(i, end, kwWhere)
	}
	if !ok || i != end && !w.is(i, hi, kwWhere) {
		return notUnderstood(o.verb, "its table is not understood")
	}
	o.tables = []Table{table}
	return w.mysqlChange(o, i, end, hi)
}

// mysqlBehindTable reports whether the word at i is not an alias.
func (w *walker) mysqlBehindTable(i int) bool {
	switch w.tokens[i].word {
	case kwWhere, kwOrder, kwLimit, kwReturning, kwFor:
		return true
	}
	return false
}

// mysqlDeleteSeveral is for a DELETE that names what it deletes from apart
// from the tables that it joins, which stand from i on.
func (w *walker) mysqlDeleteSeveral(o outcome, targets span, i, hi int) outcome {
	end := w.mysqlClauses(i, hi)
	where := w.find(i, end, kwWhere)
	refs, ok := w.mysqlRefs(i, where, nil)
	for j := targets.lo; ok; j++ {
		var t Table
		star := j + 1 // of a.* or a.b.*
		for star < targets.hi && w.spelled(star) != "*" && w.tokens[star].punct != ',' {
			star++
		}
		if star < targets.hi && w.spelled(star) == "*" {
			if t, j, ok = w.table(j, star-1); ok {
				ok = j == star-1 && w.isPunct(j, star, '.')
			}
			j = star + 1
		} else {
			t, j, ok = w.table(j, targets.hi)
		}
		if !ok {
			break
		}
		o.tables = appendWritten(o.tables, refs, t)
		if j == targets.hi {
			return w.mysqlChange(o, i, end, hi)
		}
		ok = w.isPunct(j, targets.hi, ',')
	}
	return notUnderstood(o.verb, "its tables are not understood")
}

// mysqlClauses returns where the clauses begin that stand behind the WHERE.
func (w *walker) mysqlClauses(i, hi int) int {
	end := w.find(i, hi, kwReturning)
	end = w.find(i, end, kwLimit)
	return w.find(i, end, kwOrder)
}

// mysqlChange guards UPDATE and DELETE in their WHERE, which ends at end.
func (w *walker) mysqlChange(o outcome, i, end, hi int) outcome {
	o.strategy = Splice
	o.returns = w.find(end, hi, kwReturning) < hi
	where := w.find(i, end, kwWhere)
	if w.find(end, hi, kwWhere) != hi {
		return notUnderstood(o.verb, "its WHERE is not understood")
	}
	if where == end {
		o.edits = []edit{{at: w.tokens[end-1].end(), kind: editWhere}}
		return o
	}
	if !w.condition(where+1, end) {
		return notUnderstood(o.verb, "its WHERE is not understood")
	}
	o.edits = []edit{{at: w.tokens[where+1].start, kind: editWhereOpen}, {at: w.tokens[end-1].end(), kind: editClose}}
	return o
}
