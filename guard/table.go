package guard

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// tableName is a listed table; schema is "" where none is named.
type tableName struct{ schema, name string }

// parseTable reads "table" or "schema.table". The engine is not known yet: each of the
// quotes that one of them takes is taken.
func parseTable(n string) (tableName, error) {
	first, rest, ok := tablePart(n)
	t := tableName{name: first}
	if ok && rest != "" {
		t.schema = first
		if t.name, rest, ok = tablePart(strings.TrimPrefix(rest, ".")); rest != "" {
			ok = false
		}
	}
	if !ok {
		return t, fmt.Errorf("%w: table %q is not of the form table or schema.table, with quotes around what is no plain name", ErrInvalidInput, n)
	}
	return t, nil
}

// tablePart reads one part of a name. The rest is empty, or begins with a dot.
func tablePart(s string) (part, rest string, ok bool) {
	if !utf8.ValidString(s) || s == "" {
		return "", "", false
	}
	shut, quoted := map[byte]string{'"': `"`, '`': "`", '[': "]"}[s[0]]
	if !quoted {
		part, rest = s, ""
		if i := strings.IndexByte(s, '.'); i >= 0 {
			part, rest = s[:i], s[i:]
		}
		odd := func(r rune) bool {
			return r < utf8.RuneSelf && r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}
		return part, rest, part != "" && !strings.ContainsFunc(part, odd)
	}
	var b strings.Builder
	for s = s[1:]; ; s = s[1:] {
		i := strings.Index(s, shut)
		if i < 0 {
			return "", "", false
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		if shut == "]" || !strings.HasPrefix(s, shut) {
			break
		}
		b.WriteString(shut)
	}
	return b.String(), s, b.Len() > 0 && !strings.Contains(b.String(), "\x00") && (s == "" || s[0] == '.')
}

// matches reports whether the listed name may be that table.
func (l tableName) matches(e sqlgen.Engine, t sqlgen.Table) bool {
	return same(e, l.name, t.Name) && (l.schema == "" || t.Schema == "" || same(e, l.schema, t.Schema))
}

// same reports whether a listed name may be that of the text, which has been cut as the
// engine does it. What is no UTF-8 was written in an encoding that nobody knows here.
func same(e sqlgen.Engine, listed, name string) bool {
	return fold(sqlgen.CutName(e, listed)) == fold(name) || !utf8.ValidString(name)
}

func fold(s string) string { return strings.ToLower(s) }
