package sqlgen

// postgresUtility finds out about a statement that takes no WITH list: those
// that PostgreSQL calls utility commands. What writes is checked first in its
// transaction. That is sound because none of them, but for CALL and DO, can end
// the transaction in which the check holds the fence; what ends one is never
// called by these verbs.
func (w *walker) postgresUtility(lo, hi int) outcome {
	verb := w.verb(lo)
	switch w.tokens[lo].word {
	case kwExplain:
		return w.postgresExplain(lo, hi)
	case kwDeclare:
		// DECLARE … CURSOR … FOR query: the server takes no writing query.
		if writes, _ := w.writesInBrackets(lo, hi); writes > 0 {
			return notUnderstood(verb, "a write inside of a cursor's query")
		}
		if o := w.postgresRead(lo, hi, verb); o.strategy != Pass {
			return notUnderstood(verb, "a SELECT INTO in a cursor's query")
		}
		return pass(KindRead, verb)
	case kwPrepare, kwSet, kwReset, kwShow, kwListen, kwUnlisten, kwNotify, kwDeallocate, kwClose, kwFetch, kwMove, kwLock, kwDiscard:
		// What PREPARE plans is executed by EXECUTE, which is checked.
		return pass(KindSession, verb)
	case kwTruncate:
		return checked(KindOtherWrite, verb, "it takes no WITH").on(w.postgresTruncated(lo+1, hi)...)
	case kwCopy:
		return w.postgresCopy(lo+1, hi)
	case kwCall, kwDo:
		// Inside of a transaction block PostgreSQL lets no procedure commit.
		// Elsewhere one may, which would let go of the fence in its middle
		// (DESIGN §3: the stale write lands).
		o := checked(KindOtherWrite, verb, "what it runs cannot be seen, and outside of a transaction it may commit")
		o.strategy, o.advice = CheckInTransaction, "run it in a transaction that the program begins"
		return o
	case kwExecute:
		// It runs a prepared INSERT, UPDATE, DELETE, MERGE or query: PREPARE
		// takes nothing else, so that it cannot commit.
		return checked(KindOtherWrite, verb, "what it runs cannot be seen")
	case kwVacuum:
		return alone(KindOtherWrite, verb)
	case kwCluster:
		if lo+1 == hi { // all tables, in a transaction each
			return alone(KindOtherWrite, verb)
		}
		return checked(KindOtherWrite, verb, "it takes no WITH")
	case kwReindex:
		if w.mentions(lo, hi, "concurrently") || w.mentions(lo, hi, "schema") || w.mentions(lo, hi, "database") || w.mentions(lo, hi, "system") {
			return alone(KindOtherWrite, verb)
		}
		return checked(KindOtherWrite, verb, "it takes no WITH")
	case kwRefresh, kwAnalyze, kwCheckpoint, kwLoad:
		return checked(KindOtherWrite, verb, "it takes no WITH")
	case kwCreate:
		return w.postgresCreate(lo, hi)
	case kwAlter, kwDrop, kwGrant, kwRevoke, kwComment, kwSecurity, kwReassign, kwImport:
		return w.postgresDefinition(lo, hi)
	}
	return notUnderstood(verb, "an unknown verb")
}

// checked is a statement that takes no fence, and is executed behind a check in
// the same transaction.
func checked(kind Kind, verb, reason string) outcome {
	return outcome{kind: kind, verb: verb, strategy: CheckFirst, reason: reason}
}

// alone is a statement that the server executes outside of transactions only,
// so that no check can hold the fence for it.
func alone(kind Kind, verb string) outcome {
	return refuse(kind, verb, "it does not run inside of a transaction, in which it would have to be checked",
		"run it under guard.Without, while nobody else can own what it changes")
}

// mentions reports whether the range holds the word, without quotes, on any
// level.
func (w *walker) mentions(lo, hi int, lower string) bool {
	for i := lo; i < hi; i++ {
		if w.spells(i, lower) {
			return true
		}
	}
	return false
}

// postgresDefinition: definitions take part in the transaction, but for a few.
// One that is not listed here and does not run inside of a transaction is
// refused by the server, in the one that the check has opened.
func (w *walker) postgresDefinition(lo, hi int) outcome {
	verb, object := w.verb(lo), lo+1
	for object < hi && (w.is(object, hi, kwOr) || w.is(object, hi, kwReplace) || w.spells(object, "unique")) {
		object++
	}
	if object >= hi {
		return notUnderstood(verb, "there is nothing behind it")
	}
	create, drop, alter := w.tokens[lo].word == kwCreate, w.tokens[lo].word == kwDrop, w.tokens[lo].word == kwAlter
	switch {
	case (create || drop) && (w.spells(object, "database") || w.spells(object, "tablespace")),
		alter && w.spells(object, "system"),
		(create || drop) && w.spells(object, "index") && w.mentions(object, hi, "concurrently"),
		alter && w.is(object, hi, kwTable) && w.mentions(object, hi, "concurrently"): // DETACH PARTITION
		return alone(KindDefinition, verb)
	}
	return checked(KindDefinition, verb, "a definition takes no fence")
}

// postgresCreate: CREATE … AS writes the rows of a query if it makes a table or
// a materialized view.
func (w *walker) postgresCreate(lo, hi int) outcome {
	i := lo + 1
	for w.is(i, hi, kwGlobal) || w.is(i, hi, kwLocal) || w.is(i, hi, kwTemp) || w.is(i, hi, kwTemporary) || w.is(i, hi, kwUnlogged) {
		i++
	}
	switch {
	case w.is(i, hi, kwTable):
		i++
	case w.is(i, hi, kwMaterialized) && w.is(i+1, hi, kwView):
		i += 2
	default:
		return w.postgresDefinition(lo, hi)
	}
	if w.is(i, hi, kwIf) && w.is(i+1, hi, kwNot) {
		i += 3
	}
	table, i, ok := w.table(i, hi)
	for ; i < hi; i = w.next(i) {
		// Elsewhere an AS stands in brackets only.
		if w.is(i, hi, kwAs) {
			o := checked(KindOtherWrite, "CREATE TABLE AS", "it makes a table")
			// What a prepared statement writes besides, the text does not tell.
			if writes, _ := w.writesInBrackets(i, hi); ok && writes == 0 && (i+1 == hi || w.tokens[i+1].word != kwExecute) {
				o.tables = []Table{table}
			}
			return o
		}
	}
	return w.postgresDefinition(lo, hi)
}

// postgresCopy: COPY … TO STDOUT reads, unless it takes its rows from a write.
func (w *walker) postgresCopy(i, hi int) outcome {
	o := checked(KindOtherWrite, "COPY", "it takes no WITH")
	from := false
	if w.isPunct(i, hi, '(') {
		shut := w.partner(i)
		if i+1 == shut || !w.is(shut+1, hi, kwTo) {
			return notUnderstood("COPY", "its query is not understood")
		}
		inner := outcome{}
		if first := w.tokens[i+1].word; first != kwCopy && first != kwExplain {
			inner = postgresStatement(w, i+1, shut)
		}
		o.tables = inner.tables
		if inner.kind == KindRead && inner.strategy == Pass && w.is(shut+2, hi, kwStdout) {
			return pass(KindRead, "COPY")
		}
		i = shut + 1
	} else {
		if w.is(i, hi, kwBinary) {
			i++
		}
		table, next, ok := w.table(i, hi)
		if ok && w.isPunct(next, hi, '(') {
			next = w.next(next)
		}
		i, from = next, w.is(next, hi, kwFrom)
		switch {
		case !ok || !from && !w.is(i, hi, kwTo):
			return notUnderstood("COPY", "its table is not understood")
		case from:
			o.tables = []Table{table}
		case w.is(i+1, hi, kwStdout):
			return pass(KindRead, "COPY")
		}
	}
	if i++; from && !(i < hi && (w.tokens[i].kind == tokenString || w.spells(i, "program"))) {
		return refuse(KindOtherWrite, "COPY", "its rows do not come with it, and database/sql has no way to send them",
			"send INSERTs; or copy on the raw connection in a transaction, after guard.Fence.Check").on(o.tables...)
	}
	return o
}

// postgresTruncated returns the tables that TRUNCATE names; nil where CASCADE
// adds some.
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
			break
		}
		i++
	}
	if w.find(i, hi, kwCascade) < hi {
		return nil
	}
	return tables
}

// postgresExplain: EXPLAIN runs the statement only with ANALYZE. It is checked
// first, not spliced: the plan that it shows is to be that of the program's own
// statement.
func (w *walker) postgresExplain(lo, hi int) outcome {
	analyze := false
	i := lo + 1
	if w.isPunct(i, hi, '(') && !w.is(i+1, hi, kwSelect) && !w.is(i+1, hi, kwWith) && !w.isPunct(i+1, hi, '(') {
		// ANALYZE false counts as ANALYZE, and so does any name in quotes.
		for ; i < hi && w.tokens[i].punct != ')'; i++ {
			t := &w.tokens[i]
			analyze = analyze || t.word == kwAnalyze || t.word == kwAnalyse || t.kind == tokenQuoted
		}
		i++
	} else {
		for w.is(i, hi, kwAnalyze) || w.is(i, hi, kwAnalyse) || w.is(i, hi, kwVerbose) {
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
	if w.tokens[i].word == kwExplain {
		return notUnderstood("EXPLAIN", "it explains an EXPLAIN")
	}
	o := postgresStatement(w, i, hi)
	switch {
	case o.strategy == Pass && o.kind == KindRead:
		return pass(KindRead, "EXPLAIN ANALYZE")
	case o.strategy == Splice, o.strategy == CheckFirst:
		return checked(KindOtherWrite, "EXPLAIN ANALYZE", "it executes a write").on(o.tables...)
	}
	return notUnderstood("EXPLAIN ANALYZE", "what it explains is not understood")
}
