package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// sqliteTwins are three databases with the same tables: one sees the bare
// statements, one the spliced ones with the valid token, one the spliced ones
// with a stale token first.
type sqliteTwins struct {
	bare, open, shut *sqliteDB
	total            *tally

	compiled, notCompiled, writes, spliced, checked, refused, replayed, compared, different int
	refusals                                                                                refusals
}

func (t *sqliteTwins) all() []*sqliteDB { return []*sqliteDB{t.bare, t.open, t.shut} }

// reset replaces the databases by empty ones that have only the fence.
func (t *sqliteTwins) reset() (err error) {
	t.close()
	for _, s := range []**sqliteDB{&t.bare, &t.open, &t.shut} {
		if *s, err = openSQLite(); err != nil {
			return err
		}
		for rest := sqlgen.Schema(sqlgen.SQLite); strings.TrimSpace(rest) != ""; {
			_, tail, free, err := (*s).prepare(rest)
			if err != nil {
				return err
			}
			free()
			if e := (*s).run(rest, nothing); e.Error != "" {
				return fmt.Errorf("the fence's schema: %s", e.Error)
			}
			rest = tail
		}
		if e := (*s).run(sqlgen.AdvanceSQL(sqlgen.SQLite), tokenValue(0, 1, nil, false)); e.Error != "" {
			return fmt.Errorf("raising the mark: %s", e.Error)
		}
	}
	return nil
}

func (t *sqliteTwins) close() {
	for _, s := range t.all() {
		if s != nil {
			s.close()
		}
	}
}

func nothing(int, string) any { return nil }

// userValue is the value of the user's parameter of a number.
func userValue(number int) any {
	if number%3 == 0 {
		return "v" + strconv.Itoa(number)
	}
	return number
}

// tokenValue gives the user's parameters their values, and those after them the
// values of n tokens, of which the last may be stale. A named parameter of the
// user's has the value of its name's number in the bare text, wherever it is.
func tokenValue(params, n int, names []string, stale bool) func(number int, name string) any {
	return func(number int, name string) any {
		if name != "" && name[0] != '?' {
			if i := slices.Index(names, name); i >= 0 {
				return userValue(i + 1)
			}
		}
		if number <= params {
			return userValue(number)
		}
		token, part := (number-params-1)/sqlgen.TokenParams, (number-params-1)%sqlgen.TokenParams
		switch part {
		case 0:
			return replayResource
		case 1:
			if stale && token == n-1 {
				return 4
			}
			return 5
		}
		return 7
	}
}

// judge holds one text against what SQLite says of it, and replays it. It
// reports whether SQLite compiled the text.
func (t *sqliteTwins) judge(text, from string) bool {
	defer func() {
		if p := recover(); p != nil {
			t.total.wrong++
			t.total.print(finding{What: fmt.Sprintf("SQLite: panic: %v", p), Text: text})
		}
	}()
	plan := sqlgen.Analyze(sqlgen.SQLite, text)
	return t.judgePlan(text, from, plan, plan.Guarded)
}

func (t *sqliteTwins) judgePlan(text, from string, plan *sqlgen.Plan, splice splicer) bool {
	if strings.IndexByte(text, 0) >= 0 {
		return false
	}
	report := func(missed bool, spliced, format string, args ...any) {
		f := finding{Missed: missed, What: "SQLite: " + fmt.Sprintf(format, args...), Text: text, Spliced: spliced}
		if missed {
			t.total.missed++
		} else {
			t.total.wrong++
		}
		t.total.print(f)
	}
	c, err := t.compile(text)
	if err != nil {
		t.notCompiled++
		if plan.Strategy == sqlgen.Splice {
			if spliced, err := splice(1); err == nil {
				if _, err := t.bare.compile(spliced); err == nil {
					report(false, spliced, "the text does not compile, the spliced text does")
				}
			}
		}
		return false
	}
	t.compiled++
	switch plan.Strategy {
	case sqlgen.Splice:
		t.spliced++
	case sqlgen.CheckFirst:
		t.checked++
	case sqlgen.Refuse:
		t.refused++
	}
	if !sqlgen.MayChangeTransaction(sqlgen.SQLite, text) && (c.Several || t.bare.changesTransaction(text)) {
		report(false, "", "MayChangeTransaction does not see that it may")
	}
	if !c.ReadOnly || c.Several {
		t.writes++
		if plan.Strategy == sqlgen.Pass && !harmless(plan.Kind) {
			report(true, "", "a write passed as %s (%s)", plan.Kind, plan.Verb)
		}
		if plan.Strategy != sqlgen.Splice && !c.Several && singleWrite.MatchString(text) {
			t.refusals.add(plan, from+": "+quote(text))
		}
	} else if plan.Strategy == sqlgen.Splice {
		report(false, "", "spliced, but it writes nothing")
	}
	if c.Several && plan.Kind != sqlgen.KindSeveral && plan.Strategy != sqlgen.Refuse {
		report(false, "", "several statements are called %s", plan.Kind)
	}
	if plan.Strategy == sqlgen.CheckFirst && (c.Several || t.bare.changesTransaction(text)) {
		report(true, "", "what may end the transaction is executed behind a check")
	}
	if c.Several {
		return true
	}
	if len(c.Params) != plan.Params && plan.Strategy == sqlgen.Splice {
		report(false, "", "it takes %d parameters, not %d", len(c.Params), plan.Params)
		return true
	}
	if plan.Strategy != sqlgen.Splice {
		t.unspliced(text, c)
	} else {
		t.replay(text, plan, splice, c, report)
	}
	return true
}

var (
	singleWrite = regexp.MustCompile(`(?is)^(?:\s|;|--[^\n]*\n|/\*.*?\*/)*(insert|update|delete|replace|with)\b`)
	// What would take the twins apart, or the process with them.
	sqliteSkip = regexp.MustCompile(`(?is)^(?:\s|;|--[^\n]*\n|/\*.*?\*/)*(attach|detach|vacuum|begin|commit|end|rollback|savepoint|release|pragma)\b`)
)

// sqliteQuirk: faults that SQLite overlooks in a bare statement. It resolves no
// function in INSERT … SELECT * FROM function(…) when it can copy the table as
// it stands, and no collation of a value that is compared with nothing.
var sqliteQuirk = regexp.MustCompile(`is not a function|no such collation sequence`)

func harmless(k sqlgen.Kind) bool {
	switch k {
	case sqlgen.KindBegin, sqlgen.KindCommit, sqlgen.KindRollback, sqlgen.KindSavepoint, sqlgen.KindRelease, sqlgen.KindRollbackTo:
		return true // BEGIN IMMEDIATE "writes", for SQLite
	}
	return false
}

// unspliced lets the twins keep pace.
func (t *sqliteTwins) unspliced(text string, c compiled) {
	if c.ReadOnly || sqliteSkip.MatchString(text) {
		return
	}
	for _, s := range t.all() {
		s.run(text, func(number int, _ string) any { return userValue(number) })
	}
}

// replay executes the text on the twins, bare and spliced.
func (t *sqliteTwins) replay(text string, plan *sqlgen.Plan, splice splicer, c compiled, report func(bool, string, string, ...any)) {
	t.replayed++
	for n := 1; n <= 2; n++ {
		spliced, err := splice(n)
		if err != nil {
			report(false, "", "not spliced for %d tokens: %v", n, err)
			return
		}
		if known, err := compareSQLite(text, spliced, n, plan.Params); err != nil {
			report(false, spliced, "%d tokens: %v", n, err)
		} else if known {
			t.compared++
		}
		s, err := t.shut.compile(spliced)
		if err != nil {
			if sqliteQuirk.MatchString(err.Error()) {
				t.different++
				t.unspliced(text, c)
				return
			}
			report(false, spliced, "the spliced text does not compile: %v", err)
			return
		}
		if s.Several || s.ReadOnly {
			report(false, spliced, "the spliced text became something else: %+v", s)
			return
		}
		if want := plan.Params + n*sqlgen.TokenParams; len(s.Params) != want {
			report(false, spliced, "the spliced text takes %d parameters, not %d", len(s.Params), want)
			return
		}
		for i, name := range c.Params {
			if name != "" && name[0] != '?' && s.Params[i] != name {
				report(false, spliced, "parameter %d was %s and is %q", i+1, name, s.Params[i])
			}
		}
		e := t.shut.run(spliced, tokenValue(plan.Params, n, c.Params, true))
		if e.Changes != 0 || len(e.Rows) != 0 {
			report(false, spliced, "a stale token among %d changed %d rows and returned %d", n, e.Changes, len(e.Rows))
		}
		if e.Error != "" {
			// Allowed only where the bare statement fails alike.
			if b := t.dry(text); b.Error != e.Error {
				report(false, spliced, "a stale token: %s; bare: %s", e, b)
			}
		}
	}
	spliced, _ := splice(1)
	bare := t.bare.run(text, func(number int, _ string) any { return userValue(number) })
	open := t.open.run(spliced, tokenValue(plan.Params, 1, c.Params, false))
	t.shut.run(text, func(number int, _ string) any { return userValue(number) })
	if bare.Error != open.Error || bare.Changes != open.Changes || bare.RowID != open.RowID ||
		!slices.Equal(bare.Fields, open.Fields) || !slices.Equal(bare.Rows, open.Rows) {
		if random.MatchString(text) {
			t.different++
			return
		}
		report(false, spliced, "open: %s; bare: %s", open, bare)
		return
	}
	if bare.Changes > 0 && !random.MatchString(text) {
		if a, b := t.bare.content(), t.open.content(); a != b {
			report(false, spliced, "the tables differ afterwards")
		}
	}
}

var random = regexp.MustCompile(`(?i)\b(random|randomblob|now|current_\w+|date|time|datetime|julianday|unixepoch|changes|total_changes)\b`)

// dry executes a text and undoes it.
func (t *sqliteTwins) dry(text string) effect {
	t.bare.run("SAVEPOINT sqlfence_oracle", nothing)
	e := t.bare.run(text, func(number int, _ string) any { return userValue(number) })
	t.bare.run("ROLLBACK TO sqlfence_oracle", nothing)
	t.bare.run("RELEASE sqlfence_oracle", nothing)
	return e
}

var (
	noTable  = regexp.MustCompile(`no such table: (?:(?:main|temp)\.)?(\S+)`)
	noColumn = regexp.MustCompile(`no such column: (?:.*\.)?"?([^."]+)"?|has no column named (\S+)`)
	noUnique = regexp.MustCompile(`ON CONFLICT clause does not match`)
	conflict = regexp.MustCompile(`(?is)on\s+conflict\s*\(([^()]+)\)`)
	noIndex  = regexp.MustCompile(`no such index: (\S+)`)
	word     = regexp.MustCompile(`\w+`)
)

// compile compiles a text; where tables or columns are missing it makes them,
// in all twins alike, until SQLite accepts the text or complains of something
// else.
func (t *sqliteTwins) compile(text string) (compiled, error) {
	for tries := 0; ; tries++ {
		c, err := t.bare.compile(text)
		if err == nil || tries == 40 {
			return c, err
		}
		var ddl []string
		complaint := err.Error()
		if m := noTable.FindStringSubmatch(complaint); m != nil && !strings.Contains(m[1], ".") && !strings.HasPrefix(m[1], "sqlfence") {
			ddl = append(ddl, "CREATE TABLE "+quoteName(m[1])+" (id INTEGER PRIMARY KEY)")
			for range 3 {
				ddl = append(ddl, "INSERT INTO "+quoteName(m[1])+" DEFAULT VALUES")
			}
		} else if m := noColumn.FindStringSubmatch(complaint); m != nil {
			column := m[1] + m[2]
			for _, table := range t.bare.tables() {
				if mentions(text, table) {
					ddl = append(ddl, "ALTER TABLE "+quoteName(table)+" ADD COLUMN "+quoteName(column))
				}
			}
		} else if m := conflict.FindStringSubmatch(text); m != nil && noUnique.MatchString(complaint) {
			for _, table := range t.bare.tables() {
				if mentions(text, table) {
					ddl = append(ddl, fmt.Sprintf("CREATE UNIQUE INDEX %s ON %s (%s)", quoteName("u"+strings.Join(word.FindAllString(table+m[1], -1), "_")), quoteName(table), m[1]))
				}
			}
		} else if m := noIndex.FindStringSubmatch(complaint); m != nil {
			for _, table := range t.bare.tables() {
				if mentions(text, table) {
					ddl = append(ddl, fmt.Sprintf("CREATE INDEX %s ON %s (id)", quoteName(m[1]), quoteName(table)))
					break
				}
			}
		}
		made := false
		for _, sql := range ddl {
			if t.bare.run(sql, nothing).Error == "" {
				made = true
				t.open.run(sql, nothing)
				t.shut.run(sql, nothing)
			}
		}
		if !made {
			return c, err
		}
	}
}

// sqliteReplay replays the SQLite statements of the corpora, then those of the
// others as far as SQLite accepts them.
func sqliteReplay(statements []statement, total *tally, list bool) error {
	t := &sqliteTwins{total: total}
	defer t.close()
	for _, dialect := range []string{"sqlite", "postgres", "mysql"} {
		for _, g := range groups(statements, dialect) {
			if err := t.reset(); err != nil {
				return err
			}
			for _, s := range g.Statements {
				t.judge(asSent(s), s.Corpus)
			}
		}
	}
	total.statements += t.compiled
	total.spliced += t.spliced
	total.refused += t.refused
	fmt.Printf("SQLite: %d statements compiled (%d did not), %d write; %d spliced, %d checked first, %d refused; %d replayed with the fence open and shut, the trees of %d compared\n",
		t.compiled, t.notCompiled, t.writes, t.spliced, t.checked, t.refused, t.replayed, t.compared/2)
	t.refusals.print(list)
	return nil
}

// mentions reports whether the name stands in the text as a word of its own. A
// name that is no UTF-8 is none that could be looked for.
func mentions(text, name string) bool {
	word, err := regexp.Compile(`(?i)(^|\W)` + regexp.QuoteMeta(name) + `($|\W)`)
	return err == nil && word.MatchString(text)
}
