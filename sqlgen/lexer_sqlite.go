package sqlgen

import "strings"

// lexSQLite reads a text by the rules of SQLite's tokenizer (src/tokenize.c).
func lexSQLite(l *lexer) error {
	for l.pos < len(l.text) {
		start := l.pos
		switch c := l.text[l.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r':
			l.pos++
		case c == '-' && l.peek(1) == '-':
			l.lineComment("\n")
		case c == '/' && l.peek(1) == '*' && l.pos+2 < len(l.text):
			// Comments do not nest, and the end of the text ends one.
			if end := strings.Index(l.text[l.pos+2:], "*/"); end >= 0 {
				l.pos += 2 + end + 2
			} else {
				l.pos = len(l.text)
			}
		case c == '\'':
			if err := l.quoted("string"); err != nil {
				return err
			}
			l.emit(tokenString, start)
		case c == '"' || c == '`':
			if err := l.quoted("quoted identifier"); err != nil {
				return err
			}
			l.emit(tokenQuoted, start)
			l.noteOwn(l.text[start+1 : l.pos])
		case c == '[':
			end := strings.IndexByte(l.text[l.pos:], ']')
			if end < 0 {
				return l.fail(start, "unterminated quoted identifier", "")
			}
			l.pos += end + 1
			l.emit(tokenQuoted, start)
			l.noteOwn(l.text[start+1 : l.pos])
		case c|0x20 == 'x' && l.peek(1) == '\'':
			l.pos++
			if err := l.quoted("blob"); err != nil {
				return err
			}
			l.emit(tokenString, start)
		case isLetter(c):
			l.run(isIdent)
			l.emitWord(start)
		case c == '?':
			l.pos++
			l.run(isDigit)
			num := 0
			if l.pos > start+1 {
				if num = parseNum(l.text[start+1 : l.pos]); num < 1 || num > maxSQLiteParams {
					return l.fail(start, "a parameter number out of range", "")
				}
			}
			l.emit(tokenParam, start).num = num
		case c == ':' || c == '@' || c == '$' || c == '#':
			if err := l.sqliteVariable(); err != nil {
				return err
			}
		case isDigit(c), c == '.' && isDigit(l.peek(1)):
			if err := l.number(); err != nil {
				return err
			}
		case strings.IndexByte("(),;.", c) >= 0:
			l.pos++
			l.emit(tokenPunct, start).punct = c
		case strings.IndexByte("=<>!|&+-*/%~", c) >= 0:
			// One byte a token: nothing here depends on which operator it is,
			// but "--" and "/*" must be seen wherever they begin.
			l.pos++
			l.emit(tokenOp, start)
		default:
			return l.fail(start, "a byte that no SQL text may hold", "")
		}
	}
	return nil
}

// sqliteVariable reads :name, @name or $name. A name may hold "::" and end in
// a bracketed suffix, which SQLite takes for Tcl's sake.
func (l *lexer) sqliteVariable() error {
	start := l.pos
	n := 0
	for l.pos++; l.pos < len(l.text); l.pos++ {
		c := l.text[l.pos]
		if isIdent(c) {
			n++
			continue
		}
		if c == '(' && n > 0 {
			return l.fail(start, "a parameter name with brackets", "use ?, ?1 or :name")
		}
		if c == ':' && l.peek(1) == ':' {
			return l.fail(start, "a parameter name with colons", "use ?, ?1 or :name")
		}
		break
	}
	if n == 0 || l.text[start] == '#' {
		return l.fail(start, "a byte that no SQL text may hold", "")
	}
	l.emit(tokenParam, start)
	return nil
}

// maxSQLiteParams is SQLite's default SQLITE_MAX_VARIABLE_NUMBER.
const maxSQLiteParams = 32766
