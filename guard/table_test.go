package guard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestNamesThatListNothingAreRefused(t *testing.T) {
	for _, name := range []string{
		"", ".", ".t", "s.", "a.b.c", "d;", "d ", " d", "odd name", "a, b", "d*", "ONLY (d)", "a..b", `"d`, `d"`, `"d"x`, `"a"b"`, `""`, `"a".`, `."a"`,
		"`d", "[d", "d]", "[]", "``", `'d'`, "d--", "a\tb", "a\x00", "\"a\x00\"", "a\xff", `"a"."b"."c"`, `"a" . "b"`, `U&"d"`,
	} {
		for what, option := range map[string]guard.PolicyOption{"Tables": guard.Tables("x", name), "Bind": guard.Bind(name, "r"), "BindPrefix": guard.BindPrefix(name, "r")} {
			if _, err := guard.NewPolicy(option); !errors.Is(err, guard.ErrInvalidInput) {
				t.Errorf("%s(%q): error %v, want ErrInvalidInput", what, name, err)
			}
		}
	}
}

func TestWhatAListedNameMatches(t *testing.T) {
	long, wide := strings.Repeat("a", 63), strings.Repeat("é", 31) // 62 bytes, and the next character ends at the 64th
	for _, c := range []struct {
		listed, written string // as in UPDATE
		engine          sqlgen.Engine
		want            bool
	}{
		{`"d"`, `d`, sqlgen.PostgreSQL, true},
		{`"D"`, `d`, sqlgen.PostgreSQL, true},
		{`Jobs`, `"Jobs"`, sqlgen.PostgreSQL, true},
		{`jobs`, `"Jobs"`, sqlgen.PostgreSQL, true},
		{`"Odd Name"`, `"Odd Name"`, sqlgen.PostgreSQL, true},
		{`"Odd Name"`, `"Odd_Name"`, sqlgen.PostgreSQL, false},
		{`app."a.b"`, `"a.b"`, sqlgen.PostgreSQL, true},
		{`"app".jobs`, `app.jobs`, sqlgen.PostgreSQL, true},
		{`app.jobs`, `jobs`, sqlgen.PostgreSQL, true},
		{`app.jobs`, `other.jobs`, sqlgen.PostgreSQL, false},
		{`jobs`, `other.jobs`, sqlgen.PostgreSQL, true},
		{`"a""b"`, `"a""b"`, sqlgen.PostgreSQL, true},
		{"`order items`", "`order items`", sqlgen.MySQL, true},
		{"`a``b`", "`a``b`", sqlgen.MySQL, true},
		{`[order items]`, `[order items]`, sqlgen.SQLite, true},
		{`"order items"`, "`order items`", sqlgen.SQLite, true},
		{long + "xyz", long + "xyz", sqlgen.PostgreSQL, true},
		{long + "xyz", long, sqlgen.PostgreSQL, true},
		{long, long + "xyz", sqlgen.PostgreSQL, true},
		{`"` + long + ` ` + `"`, long, sqlgen.PostgreSQL, true},
		{wide + "éxyz", wide, sqlgen.PostgreSQL, true},
		{wide + "éxyz", wide + "éabc", sqlgen.PostgreSQL, true},
		{long + "." + long + "z", long + "x." + long + "y", sqlgen.PostgreSQL, true},
		{long + "xyz", long + "xyz", sqlgen.SQLite, true},
		{long + "xyz", long, sqlgen.SQLite, false},
		{"jobs", "\"j\xe9\"", sqlgen.PostgreSQL, true}, // in whatever encoding
	} {
		for what, option := range map[string]guard.PolicyOption{"Tables": guard.Tables(c.listed), "Bind": guard.Bind(c.listed, "r")} {
			options := []guard.PolicyOption{option}
			if what == "Bind" {
				options = append(options, guard.Tables("unheard_of"))
			}
			p, err := guard.NewPolicy(options...)
			if err != nil {
				t.Errorf("%s(%s): %v", what, c.listed, err)
				continue
			}
			plan := sqlgen.Analyze(c.engine, "UPDATE "+c.written+" SET v = 1")
			if got := p.Guards(plan); got != c.want {
				t.Errorf("%s(%s), %s: UPDATE %s: listed %v, want %v", what, c.listed, c.engine, c.written, got, c.want)
			}
			token := []guard.Token{{Resource: "another", Epoch: 1, Grant: 1}}
			if err := p.CheckBound(plan, token); what == "Bind" && errors.Is(err, guard.ErrUnguarded) != c.want {
				t.Errorf("%s(%s), %s: UPDATE %s: error %v", what, c.listed, c.engine, c.written, err)
			}
		}
	}
}
