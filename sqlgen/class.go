package sqlgen

// class is what a byte can begin, by the rules of one engine.
type class uint8

const (
	classOdd    class = iota // nothing: no text holds it outside of quotes
	classSpace               //
	classWord                // a word
	classDigit               // a number
	classDot                 // a number or a dot
	classPunct               // a token of one byte
	classOp                  // an operator
	classDash                // an operator or a line comment
	classSlash               // an operator or a comment
	classString              // '
	classQuoted              // an identifier in quotes that are doubled to stand for themselves
	classRest                // what else the engine has: see its lexer
)

type classes [256]class

// classesOf returns the table of an engine: what all have in common and what
// is its own.
func classesOf(own map[string]class) *classes {
	var t classes
	for c := range t {
		switch b := byte(c); {
		case isLetter(b):
			t[c] = classWord
		case isDigit(b):
			t[c] = classDigit
		}
	}
	set := func(bytes string, k class) {
		for i := range len(bytes) {
			t[bytes[i]] = k
		}
	}
	set(" \t\n\f\r", classSpace)
	set(".", classDot)
	set("(),;", classPunct)
	set("+*<>=~!%&|", classOp)
	set("-", classDash)
	set("/", classSlash)
	set("'", classString)
	set(`"`, classQuoted)
	for bytes, k := range own {
		set(bytes, k)
	}
	return &t
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80 }

// identifierBytes holds the bytes that go on an identifier: PostgreSQL and
// SQLite agree on them.
var identifierBytes = func() (t [256]bool) {
	for c := range t {
		t[c] = isLetter(byte(c)) || isDigit(byte(c)) || c == '$'
	}
	return t
}()

func isIdent(c byte) bool { return identifierBytes[c] }
