package sqlgen

import (
	"strings"
	"unicode/utf8"
)

// mysqlClasses: the rest is what begins a string in double quotes, a comment of
// one line, a variable, an assignment, a parameter, and \N.
var mysqlClasses = classesOf(map[string]class{"\v": classSpace, "$": classWord, "[]{}": classPunct, "^": classOp,
	"`": classQuoted, "\"#@:?\\": classRest})

// lexMySQL reads a text by the rules of MySQL's scanner (sql/sql_lex.cc), which
// are those of MariaDB. Where the session's sql_mode would change where a
// string ends, the text is refused.
func lexMySQL(l *lexer) (err error) {
	for l.pos < len(l.text) && err == nil {
		switch start := l.pos; mysqlClasses[l.text[start]] {
		case classSpace:
			l.pos++
		case classWord:
			if c := l.text[start] | 0x20; l.peek(1) == '\'' && (c == 'x' || c == 'b' || c == 'n') {
				l.pos++
				err = l.mysqlString(start)
				continue
			}
			err = l.mysqlWord(start)
		case classDigit:
			err = l.mysqlNumber()
		case classDot:
			if !isDigit(l.peek(1)) {
				l.punct()
				continue
			}
			err = l.mysqlReal(start)
		case classPunct:
			l.punct()
		case classString:
			err = l.mysqlString(start)
		case classQuoted:
			err = l.quotedName()
		case classDash:
			err = l.mysqlDash()
		case classSlash:
			if l.peek(1) == '*' {
				err = l.mysqlComment()
				continue
			}
			l.oneByteOperator()
		case classOp:
			l.oneByteOperator()
		case classRest:
			err = l.mysqlRest()
		default:
			err = l.fail(start, "a byte that no SQL text may hold", "")
		}
	}
	return err
}

func (l *lexer) mysqlRest() error {
	start := l.pos
	switch l.text[start] {
	case '"': // a string, or with ANSI_QUOTES an identifier
		return l.mysqlString(start)
	case '#':
		l.lineComment("\n")
		return nil
	case '@':
		return l.mysqlVariable()
	case '?':
		l.pos++
		l.param(start, 0)
		return nil
	case ':':
		if l.peek(1) == '=' {
			l.pos += 2
			l.emit(tokenOp, start)
			return nil
		}
		l.punct()
		return nil
	}
	if l.peek(1) == 'N' { // NULL
		l.pos += 2
		l.emit(tokenNumber, start)
		return nil
	}
	return l.fail(start, "a backslash outside of a string", "the commands of the client programs cannot be sent to a server")
}

// mysqlDash reads a minus. Two of them begin a comment only in front of white
// space, a control character or the end: --1 is a number.
func (l *lexer) mysqlDash() error {
	if l.peek(1) == '-' {
		switch c := l.peek(2); {
		case c <= ' ' || c == 0x7f: // 0 is the end of the text
			l.lineComment("\n")
			return nil
		case c >= 0x80:
			// It is white space in some character sets.
			return l.fail(l.pos, "two dashes and a character that may be white space", "put a space behind them")
		}
	}
	l.oneByteOperator()
	return nil
}

// mysqlComment skips a comment: they do not nest, but for those that hold text
// to be executed. A quote in an optimizer hint hides the end of the comment to
// some servers.
func (l *lexer) mysqlComment() error {
	start := l.pos
	body := l.text[start+2:]
	end := strings.Index(body, "*/")
	if end < 0 {
		return l.fail(start, "unterminated comment", "")
	}
	l.pos += 2 + end + 2
	if strings.HasPrefix(body, "!") || strings.HasPrefix(body, "M!") {
		return l.fail(start, "a comment that some servers execute", "send what they are to execute without the comment")
	}
	if !strings.HasPrefix(body, "+") {
		return nil
	}
	for hint := body[:end]; ; {
		i := strings.IndexAny(hint, "'\"`")
		if i < 0 {
			return nil
		}
		closed := strings.IndexByte(hint[i+1:], hint[i])
		if closed < 0 {
			return l.fail(start, "a hint with a quote that its end does not follow", "")
		}
		hint = hint[i+1+closed+1:]
	}
}

// mysqlString reads '…' or "…" from pos; start is where its prefix begins. An
// odd run of backslashes before the quote ends the string or not, depending on
// NO_BACKSLASH_ESCAPES, and in "…" on ANSI_QUOTES. So does an even one behind a
// character that is not ASCII: where the client's character set is one like GBK,
// the first backslash belongs to the character.
func (l *lexer) mysqlString(start int) error {
	open, quote := l.pos, l.text[l.pos]
	if err := l.quoted("string"); err != nil {
		return err
	}
	body := l.text[open+1 : l.pos-1]
	for at := 0; ; {
		i := strings.IndexByte(body[at:], '\\')
		if i < 0 {
			break
		}
		from := at + i
		at = from + 1
		for at < len(body) && body[at] == '\\' {
			at++
		}
		odd := (at-from)%2 == 1 || from > 0 && body[from-1] >= 0x80
		if odd && (at == len(body) || body[at] == quote) {
			return l.fail(open+1+from, "a backslash before a quote, which ends the string or not depending on sql_mode",
				"pass the value as a parameter, or double the quote")
		}
	}
	l.emit(tokenString, start)
	return nil
}

// mysqlWord reads a keyword or identifier, and all that follows it directly
// behind dots: those parts are names, whatever their spelling, and begin with
// digits too.
func (l *lexer) mysqlWord(start int) error {
	l.pos = start
	l.word()
	if name := l.text[start:l.pos]; name[0] == '$' && strings.IndexByte(name[1:], '$') >= 0 {
		return l.fail(start, "two dollars, which begin a name or, on newer servers, a string in dollar quotes", "quote the name")
	}
	for l.peek(0) == '.' && isIdent(l.peek(1)) {
		l.tokens[len(l.tokens)-1].word = notKeyword
		l.punct()
		l.word()
		l.tokens[len(l.tokens)-1].word = notKeyword
	}
	return l.mysqlLetters(start)
}

// mysqlLetters refuses what is a letter of a name in some character sets of the
// client, and white space in others: the no-break spaces of those of one byte, and
// what UTF-8 does not know.
func (l *lexer) mysqlLetters(start int) error {
	name := l.text[start:l.pos]
	for i := 0; i < len(name); i++ {
		switch name[i] {
		case 0x9a, 0xa0, 0xca, 0xff:
			return l.fail(start+i, "a byte that is white space in some character sets", "quote the name")
		}
	}
	if !utf8.ValidString(name) {
		return l.fail(start, "a name that is not UTF-8", "quote the name")
	}
	return nil
}

// mysqlNumber reads what begins with a digit: a number, or an identifier.
func (l *lexer) mysqlNumber() error {
	start := l.pos
	if x := l.peek(1); l.text[start] == '0' && (x == 'x' || x == 'b') {
		for l.pos += 2; isDigit(l.peek(0)) && (x == 'x' || l.peek(0) < '2') || x == 'x' && l.peek(0)|0x20 >= 'a' && l.peek(0)|0x20 <= 'f'; {
			l.pos++
		}
		if l.pos > start+2 && !isIdent(l.peek(0)) {
			l.emit(tokenNumber, start)
			return nil
		}
		return l.mysqlWord(start)
	}
	l.mysqlDigits()
	switch next := l.peek(0); {
	case next == '.':
		return l.mysqlReal(start)
	case !isIdent(next):
		l.emit(tokenNumber, start)
		return nil
	case next|0x20 == 'e' && l.exponent() > 0:
		return l.mysqlReal(start)
	}
	return l.mysqlWord(start)
}

// mysqlReal reads on from the dot or the exponent of a number.
func (l *lexer) mysqlReal(start int) error {
	if l.peek(0) == '.' {
		l.pos++
		l.mysqlDigits()
	}
	if n := l.exponent(); n > 0 {
		l.pos += n
		l.mysqlDigits()
	}
	if isIdent(l.peek(0)) {
		return l.fail(start, "a number runs into a word", "put a space between them")
	}
	l.emit(tokenNumber, start)
	return nil
}

func (l *lexer) mysqlDigits() {
	for isDigit(l.peek(0)) {
		l.pos++
	}
}

// exponent returns how many bytes stand in front of the digits of an exponent;
// 0 where there is none.
func (l *lexer) exponent() int {
	if l.peek(0)|0x20 != 'e' {
		return 0
	}
	n := 1
	if s := l.peek(1); s == '+' || s == '-' {
		n = 2
	}
	if !isDigit(l.peek(n)) {
		return 0
	}
	return n
}

// mysqlVariable reads @name, @'name' and @@[scope.]name.
func (l *lexer) mysqlVariable() error {
	start := l.pos
	for l.pos++; l.peek(0) == '@' && l.pos < start+2; {
		l.pos++
	}
	switch quote := l.peek(0); quote {
	case '\'', '"':
		if err := l.mysqlString(start); err != nil {
			return err
		}
		l.tokens[len(l.tokens)-1].kind = tokenVariable
		return nil
	case '`':
		if err := l.quoted("quoted identifier"); err != nil {
			return err
		}
	default:
		for isIdent(l.peek(0)) || l.peek(0) == '.' {
			l.pos++
		}
		if err := l.mysqlLetters(start); err != nil {
			return err
		}
	}
	l.emit(tokenVariable, start)
	return nil
}
