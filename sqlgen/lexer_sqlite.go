package sqlgen

import "strings"

// sqliteClasses: the rest is what begins a parameter, and a byte order mark.
var sqliteClasses = classesOf(map[string]class{"`": classQuoted, "[?:@$#\xef": classRest})

// lexSQLite reads a text by the rules of SQLite's tokenizer (src/tokenize.c).
func lexSQLite(l *lexer) (err error) {
	for l.pos < len(l.text) && err == nil {
		switch start := l.pos; sqliteClasses[l.text[start]] {
		case classSpace:
			l.pos++
		case classWord:
			if next := l.peek(1); next == '\'' && l.text[start]|0x20 == 'x' {
				l.pos++
				if err = l.quoted("blob"); err == nil {
					l.emit(tokenString, start)
				}
				continue
			}
			l.word()
		case classPunct:
			l.punct()
		case classDot:
			if !isDigit(l.peek(1)) {
				l.punct()
				continue
			}
			err = l.number()
		case classDigit:
			err = l.number()
		case classString:
			if err = l.quoted("string"); err == nil {
				l.emit(tokenString, start)
			}
		case classQuoted:
			err = l.quotedName()
		case classDash:
			if l.peek(1) == '-' {
				l.lineComment("\n")
				continue
			}
			l.oneByteOperator()
		case classSlash:
			if l.peek(1) == '*' && start+2 < len(l.text) {
				l.flatComment()
				continue
			}
			l.oneByteOperator()
		case classOp:
			l.oneByteOperator()
		case classRest:
			err = l.sqliteRest()
		default:
			err = l.fail(start, "a byte that no SQL text may hold", "")
		}
	}
	return err
}

// flatComment skips a comment. Comments do not nest, and the end of the text
// ends one.
func (l *lexer) flatComment() {
	if end := strings.Index(l.text[l.pos+2:], "*/"); end >= 0 {
		l.pos += 2 + end + 2
	} else {
		l.pos = len(l.text)
	}
}

func (l *lexer) sqliteRest() error {
	start := l.pos
	switch l.text[start] {
	case '[':
		end := strings.IndexByte(l.text[start:], ']')
		if end < 0 {
			return l.fail(start, "unterminated quoted identifier", "")
		}
		l.pos += end + 1
		l.emit(tokenQuoted, start)
		l.noteOwn(l.text[start+1 : l.pos])
		return nil
	case '?':
		l.pos++
		for isDigit(l.peek(0)) {
			l.pos++
		}
		num := int32(0)
		if l.pos > start+1 {
			if num = parseNum(l.text[start+1 : l.pos]); num < 1 || num > maxSQLiteParams {
				return l.fail(start, "a parameter number out of range", "")
			}
		}
		l.param(start, num)
		return nil
	case '\xef':
		// A byte order mark is white space, wherever a token could begin.
		if strings.HasPrefix(l.text[start:], "\ufeff") {
			l.pos += len("\ufeff")
		} else {
			l.word()
		}
		return nil
	}
	return l.sqliteVariable()
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
	l.param(start, 0)
	return nil
}

// maxSQLiteParams is SQLite's default SQLITE_MAX_VARIABLE_NUMBER.
const maxSQLiteParams = 32766
