package sqlgen

import (
	"fmt"
	"strings"
)

// tokenKind is what a token is. White space and comments are not tokens.
type tokenKind uint8

const (
	tokenWord   tokenKind = iota + 1 // keyword or unquoted identifier
	tokenQuoted                      // quoted identifier
	tokenString                      // string, bit string or blob literal
	tokenNumber
	tokenParam    // $1, ?, ?1, :a, @a, $a
	tokenPunct    // one of ( ) [ ] { } , ; . :
	tokenOp       // operator
	tokenVariable // MySQL's @a and @@a
)

// token is one token of a text. It is small because a bulk insert has millions of
// them: what reading them costs is mostly the memory that they take.
type token struct {
	start int32
	rest  int32 // where it ends; of a bracket, the index of its partner
	kind  tokenKind
	punct byte    // the byte of a tokenPunct
	word  keyword // of a tokenWord that is a keyword we know
}

// end returns where the token ends in the text.
func (t *token) end() int32 {
	if t.kind == tokenPunct {
		return t.start + 1
	}
	return t.rest
}

// maxText is the longest text that is read, 1 GiB: the servers take no longer
// ones.
const maxText = 1 << 30

// lexError is why a text could not be read to its end.
type lexError struct {
	at     int
	reason string
	advice string
}

func (e *lexError) Error() string { return fmt.Sprintf("%s at byte %d", e.reason, e.at) }

// lexer holds what the rules of all engines share: the text and the tokens
// found so far. The rules themselves are in lexer_<engine>.go.
type lexer struct {
	text   string
	pos    int
	tokens []token
	params []param // the parameters among them
	// own reports that an identifier begins like the names we inject.
	own bool
	// standardStrings, safeEncoding: see StandardStrings and SafeEncoding.
	standardStrings, safeEncoding bool
}

func (l *lexer) fail(at int, reason, advice string) error {
	return &lexError{at: at, reason: reason, advice: advice}
}

func (l *lexer) peek(ahead int) byte {
	if i := l.pos + ahead; i < len(l.text) {
		return l.text[i]
	}
	return 0
}

func (l *lexer) emit(kind tokenKind, start int) *token {
	if len(l.tokens) == cap(l.tokens) {
		l.grow()
	}
	l.tokens = append(l.tokens, token{kind: kind, start: int32(start), rest: int32(l.pos)})
	return &l.tokens[len(l.tokens)-1]
}

// param is a parameter.
type param struct {
	at  int32 // its index among the tokens
	num int32 // of a numbered one; 0 for ? and named ones
}

// param emits a parameter; num is its number, or 0.
func (l *lexer) param(start int, num int32) {
	l.params = append(l.params, param{int32(len(l.tokens)), num})
	l.emit(tokenParam, start)
}

// grow makes room for as many tokens as the text will have, if it goes on as it
// began: a bulk insert of 10 MB has millions, and to copy them with each step of
// append would cost several times what reading them does.
func (l *lexer) grow() {
	n := len(l.tokens)
	room := max(64, 2*n)
	if n >= 256 {
		room = max(n+n/4, int(int64(n)*int64(len(l.text))/int64(l.pos)+int64(n)/8))
	}
	l.tokens = append(make([]token, 0, room), l.tokens...)
}

// punct emits the byte at pos.
func (l *lexer) punct() {
	l.pos++
	l.emit(tokenPunct, l.pos-1).punct = l.text[l.pos-1]
}

// word reads a keyword or an unquoted identifier.
func (l *lexer) word() {
	start := l.pos
	for l.pos++; l.pos < len(l.text) && isIdent(l.text[l.pos]); {
		l.pos++
	}
	w := l.text[start:l.pos]
	l.emit(tokenWord, start).word = lookupKeyword(w)
	l.noteOwn(w)
}

// ownPrefix begins every name that is injected.
const ownPrefix = "sqlfence_"

func (l *lexer) noteOwn(name string) {
	if len(name) >= len(ownPrefix) && strings.EqualFold(name[:len(ownPrefix)], ownPrefix) {
		l.own = true
	}
}

// oneByteOperator emits one byte, where nothing depends on which operator it
// is: so "--" and "/*" are seen wherever they begin.
func (l *lexer) oneByteOperator() {
	l.pos++
	l.emit(tokenOp, l.pos-1)
}

// lineComment skips "-- …" up to one of the bytes that end a line. PostgreSQL
// counts a carriage return among them, SQLite does not.
func (l *lexer) lineComment(ends string) {
	i := strings.IndexAny(l.text[l.pos:], ends)
	if i < 0 {
		l.pos = len(l.text)
		return
	}
	l.pos += i + 1
}

// quoted moves behind a literal or identifier whose closing quote is doubled
// to stand for itself; pos is at the opening one.
func (l *lexer) quoted(what string) error {
	start, quote := l.pos, l.text[l.pos]
	l.pos++
	for {
		i := strings.IndexByte(l.text[l.pos:], quote)
		if i < 0 {
			return l.fail(start, "unterminated "+what, "")
		}
		l.pos += i + 1
		if l.peek(0) != quote {
			return nil
		}
		l.pos++
	}
}

// quotedName reads an identifier in quotes that are doubled to stand for
// themselves.
func (l *lexer) quotedName() error {
	start := l.pos
	if err := l.quoted("quoted identifier"); err != nil {
		return err
	}
	l.emit(tokenQuoted, start)
	l.noteOwn(l.text[start+1 : l.pos])
	return nil
}

// digits moves behind a run of digits and underscores.
func (l *lexer) digits() {
	for l.pos < len(l.text) && (isDigit(l.text[l.pos]) || l.text[l.pos] == '_') {
		l.pos++
	}
}

// number moves behind a numeric literal. It takes every shape that one of the
// engines takes, and more: a wrong number is the server's to refuse. What must
// not happen is that an identifier is read as part of a number or the other
// way round, so a number that runs into an identifier is an error.
func (l *lexer) number() error {
	start := l.pos
	if x := l.peek(1) | 0x20; l.text[l.pos] == '0' && (x == 'x' || x == 'o' || x == 'b') {
		l.pos += 2
		for c := l.peek(0); isDigit(c) || c == '_' || c|0x20 >= 'a' && c|0x20 <= 'f'; c = l.peek(0) {
			l.pos++
		}
	} else {
		l.digits()
		if l.peek(0) == '.' && l.peek(1) != '.' {
			l.pos++
			l.digits()
		}
		if l.peek(0)|0x20 == 'e' {
			ahead := 1
			if s := l.peek(1); s == '+' || s == '-' {
				ahead = 2
			}
			if isDigit(l.peek(ahead)) {
				l.pos += ahead
				l.digits()
			}
		}
	}
	if isIdent(l.peek(0)) {
		return l.fail(start, "a number runs into a word", "put a space between them")
	}
	l.emit(tokenNumber, start)
	return nil
}

// parseNum reads the digits of a numbered parameter; -1 where there are too
// many of them to be one.
func parseNum(digits string) int32 {
	if len(digits) > 9 {
		return -1
	}
	n := int32(0)
	for i := range len(digits) {
		n = n*10 + int32(digits[i]-'0')
	}
	return n
}
