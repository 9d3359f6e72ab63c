package sqlgen

import "strings"

// postgresClasses: the rest is dollar, colon and backslash.
var postgresClasses = classesOf(map[string]class{"\v": classSpace, "[]": classPunct, "@#^`?": classOp, "$:\\": classRest})

// lexPostgres reads a text by the rules of PostgreSQL's scanner
// (src/backend/parser/scan.l), with standard_conforming_strings on. Where its
// value would change where a string ends, the text is refused, unless it is
// known to be on.
func lexPostgres(l *lexer) (err error) {
	for l.pos < len(l.text) && err == nil {
		start := l.pos
		c := postgresClasses[l.text[start]]
		if (c == classOp || c == classPunct) && l.text[start] >= '@' && l.hidden(start) {
			return l.mayBeHidden(start)
		}
		switch c {
		case classSpace:
			l.pos++
		case classWord:
			var done bool
			if done, err = l.prefixedLiteral(start); !done && err == nil {
				l.word()
			}
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
			err = l.plainString(start)
		case classQuoted:
			err = l.quotedName()
		case classDash:
			if l.peek(1) == '-' {
				l.lineComment("\n\r")
				continue
			}
			l.postgresOperator()
		case classSlash:
			if l.peek(1) == '*' {
				err = l.nestedComment()
				continue
			}
			l.postgresOperator()
		case classOp:
			l.postgresOperator()
		case classRest:
			err = l.postgresRest()
		default:
			err = l.fail(start, "a byte that no SQL text may hold", "")
		}
	}
	return err
}

func (l *lexer) postgresRest() error {
	start := l.pos
	switch l.text[start] {
	case '$':
		return l.dollar()
	case ':':
		if next := l.peek(1); next == ':' || next == '=' { // a cast, or :=
			l.pos += 2
			l.emit(tokenOp, start)
			return nil
		}
		l.punct()
		return nil
	}
	return l.fail(start, "a backslash outside of a string", "psql's own commands cannot be sent to a server")
}

func isPostgresSpace(c byte) bool { return postgresClasses[c] == classSpace }

// postgresOperator reads an operator. It ends where a comment begins: a*/**/b.
func (l *lexer) postgresOperator() {
	start := l.pos
	for l.pos++; l.pos < len(l.text); l.pos++ {
		switch postgresClasses[l.text[l.pos]] {
		case classOp:
			continue
		case classDash:
			if l.peek(1) != '-' {
				continue
			}
		case classSlash:
			if l.peek(1) != '*' {
				continue
			}
		}
		break
	}
	l.emit(tokenOp, start)
}

// nestedComment skips a comment in which comments nest.
func (l *lexer) nestedComment() error {
	start, depth := l.pos, 0
	for l.pos < len(l.text) {
		switch {
		case l.text[l.pos] == '/' && l.peek(1) == '*':
			depth++
			l.pos += 2
		case l.text[l.pos] == '*' && l.peek(1) == '/':
			depth--
			l.pos += 2
			if depth == 0 {
				return nil
			}
		default:
			l.pos++
		}
	}
	return l.fail(start, "unterminated comment", "")
}

// plainString reads '…' from pos; start is where its prefix begins. An odd
// run of backslashes before a quote ends the string or not, depending on
// standard_conforming_strings.
func (l *lexer) plainString(start int) error {
	open := l.pos
	if err := l.quoted("string"); err != nil {
		return err
	}
	body := l.text[open+1 : l.pos-1]
	if l.standardStrings {
		body = "" // a backslash is a character like any other
	}
	for rest, at := body, open+1; ; {
		i := strings.IndexByte(rest, '\\')
		if i < 0 {
			break
		}
		n := 1
		for i+n < len(rest) && rest[i+n] == '\\' {
			n++
		}
		if n%2 == 1 && (i+n == len(rest) || rest[i+n] == '\'') {
			return l.fail(at+i, "a backslash before a quote in a plain string, whose end depends on standard_conforming_strings",
				"pass the value as a parameter, or write E'…'")
		}
		rest, at = rest[i+n:], at+i+n
	}
	l.emit(tokenString, start)
	return nil
}

// prefixedLiteral reads E'…', B'…', X'…', N'…', U&'…' and U&"…", if that is
// what begins at pos.
func (l *lexer) prefixedLiteral(start int) (bool, error) {
	switch l.text[l.pos] | 0x20 {
	case 'e':
		if l.peek(1) == '\'' {
			l.pos++
			return true, l.escapeString(start)
		}
	case 'b', 'x', 'n':
		if l.peek(1) == '\'' {
			l.pos++
			return true, l.plainString(start)
		}
	case 'u':
		if l.peek(1) != '&' {
			return false, nil
		}
		switch l.peek(2) {
		case '\'':
			l.pos += 2
			return true, l.plainString(start)
		case '"':
			// It could spell one of the names that we inject.
			return true, l.fail(start, "an identifier written with Unicode escapes", `write it in plain "…"`)
		}
	}
	return false, nil
}

// escapeString reads '…' with backslash escapes. Its continuation on the next
// line ('a' newline 'b') is read by the same rules.
func (l *lexer) escapeString(start int) error {
	for {
		l.pos++
		for {
			if l.pos >= len(l.text) {
				return l.fail(start, "unterminated string", "")
			}
			c := l.text[l.pos]
			if c == '\\' {
				if l.hidden(l.pos) {
					return l.mayBeHidden(l.pos)
				}
				l.pos += 2
				continue
			}
			l.pos++
			if c != '\'' {
				continue
			}
			if l.peek(0) != '\'' {
				break
			}
			l.pos++
		}
		next, ok := l.continuation()
		if !ok {
			l.emit(tokenString, start)
			return nil
		}
		l.pos = next
	}
}

// hidden reports whether the byte at i may be the second half of a character:
// the server converts a text from client_encoding before it reads it, and in
// some encodings a byte from '@' to '~' belongs to the byte above 0x7F before
// it. Quotes, white space, dashes, slashes, round brackets, commas, semicolons
// and dollars never do. Letters and digits may, and are a part of the word that
// they follow either way.
func (l *lexer) hidden(i int) bool {
	return i > 0 && l.text[i-1] >= 0x80 && !l.safeEncoding
}

func (l *lexer) mayBeHidden(at int) error {
	return l.fail(at, "a byte that in some client_encoding is a part of the character before it",
		"use the driver of the package driver/postgres with client_encoding UTF8, or pass the value as a parameter")
}

// continuation returns where the string goes on: at a quote that is separated
// from pos by white space and line comments with at least one newline.
func (l *lexer) continuation() (int, bool) {
	newline := false
	for i := l.pos; i < len(l.text); i++ {
		switch c := l.text[i]; {
		case c == '\n' || c == '\r':
			newline = true
		case isPostgresSpace(c):
		case c == '-' && i+1 < len(l.text) && l.text[i+1] == '-':
			end := strings.IndexAny(l.text[i:], "\n\r")
			if end < 0 {
				return 0, false
			}
			i += end - 1
		case c == '\'' && newline:
			return i, true
		default:
			return 0, false
		}
	}
	return 0, false
}

// dollar reads $1 or $tag$…$tag$.
func (l *lexer) dollar() error {
	start := l.pos
	l.pos++
	if isDigit(l.peek(0)) {
		for isDigit(l.peek(0)) {
			l.pos++
		}
		num := parseNum(l.text[start+1 : l.pos])
		if num < 1 || num > maxPostgresParams {
			return l.fail(start, "a parameter number out of range", "")
		}
		if isIdent(l.peek(0)) {
			return l.fail(start, "a parameter runs into a word", "put a space between them")
		}
		l.param(start, num)
		return nil
	}
	for c := l.peek(0); isLetter(c) || isDigit(c); c = l.peek(0) {
		l.pos++
	}
	if l.peek(0) != '$' {
		return l.fail(start, "a dollar sign that begins neither a parameter nor a string", "")
	}
	l.pos++
	tag := l.text[start:l.pos]
	end := strings.Index(l.text[l.pos:], tag)
	if end < 0 {
		return l.fail(start, "unterminated dollar-quoted string", "")
	}
	l.pos += end + len(tag)
	l.emit(tokenString, start)
	return nil
}

// maxPostgresParams is the protocol's limit of parameters for one statement.
const maxPostgresParams = 65535
