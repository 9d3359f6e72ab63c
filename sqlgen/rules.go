package sqlgen

// rules is what one engine brings to the reading and splicing of texts. Those
// of an engine stand at the head of the file that is named after it; whatever
// differs between engines is found there, and not in a comparison of engines
// elsewhere.
type rules struct {
	// lex reads the whole text into tokens.
	lex func(l *lexer) error
	// statement finds out about the statement in the range of tokens.
	statement func(w *walker, lo, hi int) outcome
	// end returns the semicolon that ends the statement which begins at lo, or
	// the number of tokens. Those inside of a body end nothing.
	end func(w *walker, lo int) int
	// number counts the parameters of a text of one statement, and says where
	// among their arguments those of the fence go. It may change the outcome
	// where their places do not allow a splice.
	number func(w *walker, s span, o outcome) (_ outcome, params, at int)
	// guard appends the condition that is true while the fence is open.
	guard func(b []byte, p *Plan, n int) []byte

	maxParams int  // the protocol's limit for one statement
	maxName   int  // the bytes of a name that count; 0: all of them
	askOnZero bool // see Plan.AskOnZero
	// stringNames: a string can stand where a name is expected.
	stringNames bool
	// sameCase: the case of an unquoted name is kept.
	sameCase bool
	// valuesColumn: VALUES without a bracket behind it can be a column.
	valuesColumn bool

	// lineEnds are the bytes that end a -- comment. dashSpace: one begins only
	// where white space stands behind the dashes.
	lineEnds  string
	dashSpace bool
	// lasting reports whether a statement of this first word may begin or end
	// a transaction, or change which databases there are.
	lasting func(first keyword) bool
}

// engineRules holds the rules of each engine.
var engineRules = [...]*rules{
	PostgreSQL: &postgresRules,
	SQLite:     &sqliteRules,
	MySQL:      &mysqlRules,
}

// rulesOf panics for an engine that this package does not know: it is chosen
// in the program's text, and to pass what was not read would be a fence that is
// open.
func rulesOf(e Engine) *rules {
	if int(e) >= len(engineRules) || engineRules[e] == nil {
		panic("sqlgen: no rules for " + e.String())
	}
	return engineRules[e]
}
