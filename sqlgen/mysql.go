package sqlgen

var mysqlRules = rules{
	lex:       lexMySQL,
	statement: mysqlStatement,
	end:       func(w *walker, lo int) int { return w.endOf(lo, func(*walker, int, int) bool { return false }) },
	number:    mysqlNumber,
	guard:     appendMySQLGuard,
	maxParams: maxMySQLParams,
	askOnZero: true,
	sameCase:  true,
	lineEnds:  "\n",
	dashSpace: true,
	lasting:   mysqlLasting,
}

// maxMySQLParams is the protocol's limit of parameters for one statement.
const maxMySQLParams = 65535

// appendMySQLGuard appends the predicate of the fence: true while every token
// is the mark's own, which the statement's transaction then keeps as it is.
// sqlfence_guard is a view, because a TEMPORARY table of the same name hides
// every other table, also one that is named with its database; one that hides
// the view does not know the time of this statement, and holds no row.
func appendMySQLGuard(b []byte, p *Plan, n int) []byte {
	for i := range n {
		if i > 0 {
			b = append(b, " AND "...)
		}
		b = append(append(append(b, "EXISTS (SELECT 1 FROM "...), p.options.database...), mysqlGuardWhere...)
	}
	return b
}

const mysqlGuardWhere = "sqlfence_guard AS sqlfence_g WHERE sqlfence_g.resource = ? AND sqlfence_g.high_water = ?" +
	" AND sqlfence_g.grant_id = ? AND sqlfence_g.at = CURRENT_TIMESTAMP(6) LOCK IN SHARE MODE)"

// mysqlNumber counts the parameters, which are all anonymous: those of the
// fence go in at the number of them that stand before it.
func mysqlNumber(w *walker, _ span, o outcome) (_ outcome, params, at int) {
	place := int32(len(w.text))
	for _, e := range o.edits {
		if e.kind.hasParams() {
			place = min(place, e.at)
		}
	}
	for i := range w.tokens {
		if t := &w.tokens[i]; t.kind == tokenParam {
			params++
			if t.start < place {
				at++
			}
		}
	}
	return o, params, at
}

// mysqlLasting: nearly every other statement commits, or calls what may.
func mysqlLasting(first keyword) bool {
	switch first {
	case kwSelect, kwInsert, kwReplace, kwUpdate, kwDelete, kwShow, kwValues, kwWith:
		return false
	}
	return true
}

// mysqlStatement finds out about the statement in the range.
func mysqlStatement(w *walker, lo, hi int) outcome {
	return notUnderstood("the text", "it does not begin with a verb")
}

func lexMySQL(l *lexer) error { return l.fail(0, "not read", "") }
