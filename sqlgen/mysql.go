package sqlgen

import "strings"

var mysqlRules = rules{
	lex:         lexMySQL,
	statement:   mysqlStatement,
	end:         mysqlEnd,
	number:      mysqlParams,
	guard:       appendMySQLGuard,
	maxParams:   maxMySQLParams,
	askOnZero:   true,
	stringNames: true, // "a", with ANSI_QUOTES
	sameCase:    true,
	lineEnds:    "\n",
	dashSpace:   true,
	lasting:     mysqlLasting,
}

// maxMySQLParams is the protocol's limit of parameters for one statement.
const maxMySQLParams = 65535

// appendMySQLGuard appends the predicate of the fence: true while every token
// is the mark's own, which the statement's transaction then keeps as it is.
// sqlfence_guard is a view, because a TEMPORARY table of the same name hides
// every other table, also one that is named with its database; one that hides
// the view does not know the time of this statement, and holds no row.
//
// The hint is for MySQL, which would make a join of the condition: an UPDATE of one
// table would become one of several, which notes all rows first and then looks for
// each of them again.
func appendMySQLGuard(b []byte, p *Plan, n int) []byte {
	for i := range n {
		if i > 0 {
			b = append(b, " AND "...)
		}
		b = append(append(append(b, "EXISTS (SELECT /*+ NO_SEMIJOIN() */ 1 FROM "...), p.options.database...), mysqlGuardWhere...)
	}
	return b
}

const mysqlGuardWhere = "sqlfence_guard AS sqlfence_g WHERE sqlfence_g.resource = UNHEX(CONVERT(? USING ascii)) AND sqlfence_g.high_water = ?" +
	" AND sqlfence_g.grant_id = ? AND sqlfence_g.at = CURRENT_TIMESTAMP(6) LOCK IN SHARE MODE)"

// mysqlParams counts the parameters, which are all anonymous: those of the
// fence go in at the number of them that stand before it.
func mysqlParams(w *walker, s span, o outcome) (_ outcome, params, at int) {
	place := int32(len(w.text))
	for _, e := range o.edits {
		if strings.HasSuffix(w.text[:e.at], "--") {
			// With white space behind them, the two minuses would begin a comment.
			o = notUnderstood(o.verb, "it ends in a minus")
			break
		}
		if e.kind.hasParams() {
			place = min(place, e.at)
		}
	}
	for _, p := range w.params {
		if w.tokens[p.at].start < place {
			at++
		}
	}
	switch {
	case o.strategy != Splice:
	case w.own && !w.qualified && w.namesGuard(s):
		o = checkFirst(o, "a WITH list has a member of the name of the fence")
	case w.callsForeign(max(s.lo, o.rows), s.hi):
		o = checkFirst(o, "a function of the program's own may write before the fence is asked")
	}
	return o, len(w.params), at
}

// namesGuard reports whether a WITH list has a member that would be taken for
// the fence, where that is not named with its database.
func (w *walker) namesGuard(s span) bool {
	for i := s.lo; i < s.hi; i++ {
		if !w.name(i, s.hi) || !strings.EqualFold(w.identifier(i), "sqlfence_guard") {
			continue
		}
		j := i + 1
		if w.isPunct(j, s.hi, '(') {
			j = w.next(j)
		}
		if j < s.hi && w.tokens[j].word == kwAs && w.isPunct(j+1, s.hi, '(') {
			return true
		}
	}
	return false
}

// mysqlLasting: nearly every other statement commits, or calls what may.
func mysqlLasting(first keyword) bool {
	switch first {
	case kwSelect, kwInsert, kwReplace, kwUpdate, kwDelete, kwShow, kwValues, kwWith:
		return false
	}
	return true
}

// mysqlStatement finds out about the statement in the range. SETVAL of a sequence
// writes wherever it stands; what NEXTVAL takes is like an id of AUTO_INCREMENT.
func mysqlStatement(w *walker, lo, hi int) outcome {
	o := w.mysqlVerb(lo, hi)
	if o.strategy != Pass || !w.mysqlSetval(lo, hi) {
		return o
	}
	switch o.kind {
	case KindRead:
		return checkFirst(outcome{kind: KindOtherWrite, verb: "SETVAL"}, "it takes no condition")
	case KindSession:
		return refuse(KindOtherWrite, "SETVAL", "in a statement about the session", "use SELECT SETVAL")
	}
	return o
}

func (w *walker) mysqlSetval(lo, hi int) bool {
	for i := lo; i < hi; i++ {
		if w.isPunct(i+1, hi, '(') && w.spells(i, "setval") {
			return true
		}
	}
	return false
}

func (w *walker) mysqlVerb(lo, hi int) outcome {
	t := &w.tokens[lo]
	if t.punct == '(' {
		return w.mysqlRead(lo, hi, "SELECT")
	}
	if t.kind != tokenWord {
		return notUnderstood("the text", "it does not begin with a verb")
	}
	switch t.word {
	case kwSelect, kwValues, kwTable:
		return w.mysqlRead(lo, hi, w.verb(lo))
	case kwWith:
		_, main, _, ok := w.withList(lo, hi)
		switch {
		case !ok:
			return notUnderstood("WITH", "its WITH list is not understood")
		case w.is(main, hi, kwUpdate):
			return w.mysqlUpdate(main, hi)
		case w.is(main, hi, kwDelete):
			return w.mysqlDelete(main, hi)
		case w.is(main, hi, kwSelect), w.is(main, hi, kwValues), w.is(main, hi, kwTable), w.isPunct(main, hi, '('):
			return w.mysqlRead(lo, hi, "SELECT")
		}
		return notUnderstood("WITH", "the statement behind its WITH list is not understood")
	case kwInsert, kwReplace:
		return w.mysqlInsert(lo, hi)
	case kwUpdate:
		return w.mysqlUpdate(lo, hi)
	case kwDelete:
		return w.mysqlDelete(lo, hi)
	case kwSet:
		return w.mysqlSet(lo, hi)
	case kwCreate:
		return w.mysqlCreate(lo, hi)
	}
	return w.mysqlOther(w.verb(lo), lo, hi)
}

// mysqlOther is for the statements that are neither queries nor writes of rows.
func (w *walker) mysqlOther(verb string, lo, hi int) outcome {
	i := lo + 1
	switch verb {
	case "EXPLAIN", "DESCRIBE", "DESC":
		return w.mysqlExplain(verb, i, hi, false)
	case "ANALYZE":
		if w.says(i, hi, "no_write_to_binlog") || w.says(i, hi, "local") {
			i++
		}
		if w.says(i, hi, "table") || w.says(i, hi, "tables") {
			return commits(KindOtherWrite, verb)
		}
		return w.mysqlExplain(verb, i, hi, true)
	case "BEGIN":
		if w.says(i, hi, "work") {
			i++
		}
		if i < hi {
			return mayCommit("compound statement")
		}
		return pass(KindBegin, verb)
	case "START":
		if w.says(i, hi, "transaction") {
			return pass(KindBegin, verb)
		}
		return commits(KindOtherWrite, verb)
	case "COMMIT":
		return pass(KindCommit, verb)
	case "ROLLBACK":
		if w.says(i, hi, "work") {
			i++
		}
		if w.says(i, hi, "to") {
			return pass(KindRollbackTo, "ROLLBACK TO")
		}
		return pass(KindRollback, verb)
	case "SAVEPOINT":
		return pass(KindSavepoint, verb)
	case "RELEASE":
		return pass(KindRelease, verb)
	case "XA":
		return w.mysqlXA(i, hi)
	case "SHOW", "HELP", "USE", "GET", "SIGNAL", "RESIGNAL", "DEALLOCATE":
		return pass(KindSession, verb)
	case "DO", "HANDLER", "CHECKSUM":
		return pass(KindRead, verb)
	case "LOAD":
		return w.mysqlLoad(i, hi)
	case "CALL":
		return mayCommit(verb)
	case "EXECUTE":
		return mayCommit(verb)
	case "PREPARE":
		return refuse(KindOtherWrite, verb, "what it prepares is executed later, under nobody's token",
			"prepare through database/sql: the executing context decides")
	case "TRUNCATE":
		if w.says(i, hi, "table") {
			i++
		}
		o := commits(KindOtherWrite, verb)
		o.advice = "use DELETE, or " + o.advice
		if table, _, ok := w.table(i, hi); ok {
			o.tables = []Table{table}
		}
		return o
	case "LOCK", "UNLOCK", "OPTIMIZE", "REPAIR", "CHECK", "CACHE", "FLUSH", "KILL", "RESET", "PURGE", "CHANGE", "STOP",
		"INSTALL", "UNINSTALL", "SHUTDOWN", "RESTART", "CLONE", "IMPORT", "BINLOG", "BACKUP":
		return commits(KindOtherWrite, verb)
	case "DROP":
		if w.says(i, hi, "prepare") {
			return pass(KindSession, verb)
		}
		return commits(KindDefinition, verb)
	case "ALTER", "RENAME", "GRANT", "REVOKE":
		return commits(KindDefinition, verb)
	}
	return notUnderstood(verb, "an unknown verb")
}

// commits is a statement that ends the transaction in which it is executed
// before it begins, so that no check could cover it.
func commits(kind Kind, verb string) outcome {
	o := refuse(kind, verb, "it commits before it begins, so no check can cover it", "run it under guard.Without")
	o.commits = true
	return o
}

// mayCommit is a statement that executes what the text does not tell.
func mayCommit(verb string) outcome {
	o := refuse(KindOtherWrite, verb, "what it runs cannot be seen, and it may commit", "send its statements one by one, or run it under guard.Without")
	o.commits = true
	return o
}

// says reports whether i is this word, used as a keyword.
func (w *walker) says(i, hi int, lower string) bool {
	return i < hi && w.spells(i, lower) && !w.isLabel(i)
}

// mysqlRead is for a query: it writes only with INTO OUTFILE or DUMPFILE, and
// that to a file.
func (w *walker) mysqlRead(lo, hi int, verb string) outcome {
	for i := lo; i < hi; i++ {
		if w.is(i, hi, kwInto) && (w.says(i+1, hi, "outfile") || w.says(i+1, hi, "dumpfile")) {
			return refuse(KindOtherWrite, "SELECT INTO OUTFILE", "it writes a file of the server", "run it under guard.Without")
		}
	}
	return pass(KindRead, verb)
}

// mysqlExplain: EXPLAIN runs the statement only with ANALYZE, and MariaDB's
// ANALYZE statement always does.
func (w *walker) mysqlExplain(verb string, i, hi int, analyze bool) outcome {
	for ; i < hi && !w.mysqlExplained(i, hi); i++ {
		analyze = analyze || w.is(i, hi, kwAnalyze)
	}
	if !analyze {
		return pass(KindRead, verb)
	}
	if verb != "ANALYZE" {
		verb += " ANALYZE"
	}
	if i == hi {
		return notUnderstood(verb, "there is nothing to explain")
	}
	inner := mysqlStatement(w, i, hi)
	if inner.strategy == Pass && inner.kind == KindRead {
		return pass(KindRead, verb)
	}
	return refuse(KindOtherWrite, verb, "it executes a write", "explain without ANALYZE, or "+adviceCheck).on(inner.tables...)
}

func (w *walker) mysqlExplained(i, hi int) bool {
	switch w.tokens[i].word {
	case kwSelect, kwInsert, kwReplace, kwUpdate, kwDelete, kwWith, kwTable, kwValues:
		return w.is(i, hi, w.tokens[i].word)
	}
	return w.isPunct(i, hi, '(')
}

// mysqlXA: what XA PREPARE leaves behind belongs to no session, and holds no shared
// lock any more, as on the fence: no guarded write may be part of it.
func (w *walker) mysqlXA(i, hi int) outcome {
	const reason, advice = "a prepared transaction does not hold the fence shut", "use BEGIN and COMMIT, or run it under guard.Without"
	switch {
	case w.says(i, hi, "start"), w.says(i, hi, "begin"):
		return refuse(KindBegin, "XA "+w.verb(i), reason, advice)
	case w.says(i, hi, "end"):
		return pass(KindSession, "XA END")
	case w.says(i, hi, "recover"):
		return pass(KindSession, "XA RECOVER")
	case w.says(i, hi, "prepare"), w.says(i, hi, "commit"):
		return refuse(KindPrepareTx, "XA "+w.verb(i), reason, advice)
	case w.says(i, hi, "rollback"):
		return pass(KindPrepareTx, "XA ROLLBACK")
	}
	return notUnderstood("XA", "its second word is not understood")
}

// mysqlLoad: LOAD DATA and LOAD XML are checked first. Whatever else LOAD does
// commits.
func (w *walker) mysqlLoad(i, hi int) outcome {
	if !w.says(i, hi, "data") && !w.says(i, hi, "xml") {
		return commits(KindOtherWrite, "LOAD")
	}
	for ; i < hi; i = w.next(i) {
		if w.is(i, hi, kwInto) && w.is(i+1, hi, kwTable) {
			if table, _, ok := w.table(i+2, hi); ok {
				o := outcome{kind: KindOtherWrite, verb: "LOAD", tables: []Table{table}}
				return checkFirst(o, "it takes no condition")
			}
		}
	}
	return notUnderstood("LOAD", "its table is not understood")
}

// mysqlSet: SET STATEMENT … FOR executes the statement behind it.
func (w *walker) mysqlSet(lo, hi int) outcome {
	i := lo + 1
	switch {
	case w.says(i, hi, "password"), w.says(i, hi, "default"):
		return commits(KindDefinition, "SET "+w.verb(i))
	case w.says(i, hi, "statement"):
		if w.setsClock(i, w.find(i, hi, kwFor)) {
			return setsClock
		}
		if i = w.find(i, hi, kwFor) + 1; i < hi {
			return mysqlStatement(w, i, hi)
		}
		return notUnderstood("SET STATEMENT", "there is no statement behind it")
	}
	if w.setsClock(i, hi) {
		return setsClock
	}
	for i := lo + 1; i < hi; i++ {
		if t := &w.tokens[i]; t.kind != tokenPunct && t.kind != tokenOp && w.mysqlSetting(i) == "autocommit" {
			o := refuse(KindOtherWrite, "SET autocommit", "it changes where transactions end, and may commit",
				"use BEGIN and COMMIT, or run it under guard.Without")
			o.commits = true
			return o
		}
	}
	for i := lo + 1; i < hi; i++ { // the assignments
		end := w.mysqlComma(i, hi)
		if !w.mysqlCharset(i, end) {
			return refuse(KindOtherWrite, "SET NAMES", "in some character sets, strings end elsewhere than they seem to",
				"use utf8mb4, and write its name")
		}
		i = end
	}
	return pass(KindSession, "SET")
}

// setsClock: the fence asks whether a row of its is of the present, and a session
// with a clock of its own could make up one.
var setsClock = refuse(KindOtherWrite, "SET timestamp", "the fence needs the clock of the server", "run it under guard.Without")

func (w *walker) setsClock(lo, hi int) bool {
	for i := lo; i+1 < hi; i++ {
		s := strings.ToLower(strings.Trim(w.spelled(i), "@`\""))
		if s[strings.LastIndexByte(s, '.')+1:] == "timestamp" && (w.spelled(i+1) == "=" || w.spelled(i+1) == ":=") {
			return true
		}
	}
	return false
}

// mysqlSetting returns the name of a setting that the token could be, in lower
// case.
func (w *walker) mysqlSetting(i int) string {
	s := strings.ToLower(strings.Trim(w.spelled(i), "@`\"'"))
	return s[strings.LastIndexByte(s, '.')+1:]
}

func (w *walker) mysqlComma(i, hi int) int {
	for i < hi && !w.isPunct(i, hi, ',') {
		i = w.next(i)
	}
	return min(i, hi)
}

// mysqlCharset reports whether the assignment in the range leaves the client's
// character set to be one whose strings are read here as the server reads them.
func (w *walker) mysqlCharset(lo, hi int) bool {
	i := lo
	if w.says(i, hi, "global") || w.says(i, hi, "session") || w.says(i, hi, "local") || w.says(i, hi, "persist") || w.says(i, hi, "persist_only") {
		i++
	}
	switch {
	case w.says(i, hi, "names"), w.says(i, hi, "charset"):
		i++
	case (w.says(i, hi, "character") || w.says(i, hi, "char")) && w.is(i+1, hi, kwSet):
		i += 2
	default:
		// @@session.character_set_client, or with dots between the tokens
		for ; ; i++ {
			if i >= hi || w.tokens[i].kind == tokenOp {
				return true
			}
			user := w.tokens[i].kind == tokenVariable && !strings.HasPrefix(w.spelled(i), "@@")
			if !user && w.tokens[i].kind != tokenPunct && w.mysqlSetting(i) == "character_set_client" {
				break
			}
		}
		i++
	}
	if i < hi && w.tokens[i].kind == tokenOp || w.isPunct(i, hi, ':') {
		i++
	}
	if i >= hi || w.tokens[i].kind != tokenWord && w.tokens[i].kind != tokenString || w.says(i, hi, "default") {
		return false
	}
	return SafeCharset(w.mysqlSetting(i)) && (i+1 == hi || i+3 == hi && w.says(i+1, hi, "collate"))
}

// mysqlCreate: CREATE TABLE … SELECT writes the rows of a query.
func (w *walker) mysqlCreate(lo, hi int) outcome {
	o := commits(KindDefinition, "CREATE")
	i := lo + 1
	if w.is(i, hi, kwOr) && w.is(i+1, hi, kwReplace) {
		i += 2
	}
	if w.is(i, hi, kwTemporary) {
		i++
	}
	if !w.is(i, hi, kwTable) {
		return o
	}
	i++
	if w.is(i, hi, kwIf) && w.is(i+1, hi, kwNot) {
		i += 3
	}
	table, i, ok := w.table(i, hi)
	for ; ok && i < hi; i = w.next(i) {
		first := i
		if w.isPunct(i, hi, '(') {
			first++
		}
		// AS is optional: behind it, the word would count as a name.
		switch word := w.tokens[first].word; word {
		case kwSelect, kwWith, kwValues, kwTable:
			if w.tokens[first-1].punct != '.' {
				o.kind, o.verb, o.tables = KindOtherWrite, "CREATE TABLE AS", []Table{table}
				o.advice = "create the table, then INSERT into it; or " + o.advice
				return o
			}
		}
	}
	return o
}
