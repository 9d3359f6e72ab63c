package main

import (
	"math/rand/v2"
	"regexp"
	"strings"
)

// mutator makes new statements out of those of the corpora: most are nearly
// SQL, a good part is SQL that nobody would write.
type mutator struct {
	odds   []string
	frames []string
	rand   *rand.Rand
	pool   [][]string // the tokens of each text
	writes [][]string // those of the writes
}

// newMutator takes the texts to start from, the tokens that are odd on their
// engine, and the frames to put statements into.
func newMutator(seed uint64, texts, odds, frames []string) *mutator {
	m := &mutator{rand: rand.New(rand.NewPCG(seed, seed)), odds: odds, frames: frames}
	for _, text := range texts {
		if len(text) > 3000 {
			continue
		}
		if list := cut(text); len(list) > 0 {
			m.pool = append(m.pool, list)
			if singleWrite.MatchString(text) {
				m.writes = append(m.writes, list)
			}
		}
	}
	return m
}

// oddPostgreSQL are tokens that lexers get wrong, or whose presence decides what a
// statement is.
var oddPostgreSQL = []string{
	"WHERE", "RETURNING", "SET", "FROM", "USING", "WITH", "WITH RECURSIVE", "AS", "(", ")", ",", ";", "AND", "OR", "NOT", "SELECT",
	"VALUES", "DEFAULT", "DEFAULT VALUES", "INSERT INTO", "UPDATE", "DELETE FROM", "MERGE INTO", "ONLY", "*", "INTO", "ON CONFLICT DO NOTHING",
	"CURRENT OF c", "UNION ALL", "EXCEPT", "ORDER BY 1", "LIMIT 1", "FOR UPDATE", "OVERRIDING SYSTEM VALUE", "TABLE", "LATERAL",
	"DO UPDATE SET a = 1", "WHEN MATCHED THEN DELETE", "WHEN NOT MATCHED THEN DO NOTHING", "IS NOT DISTINCT FROM", "BETWEEN", "IN",
	"/* c */", "/* ' */", "/* /* */ */", "/* -- */", "-- c\n", "-- '\n", "--", "/**/", "/*/ */", "-- $$\n", "/* ; */", "/*+ hint */",
	"''", "' '", "''''", "'WHERE'", "' -- '", "'/*'", "' ) '", "';'", "'a'\n'b'", "'a' -- c\n 'b'", "E''", `E'\''`, `E'\\'`, `e'\' --'`, `E'\'' --'`,
	`'\'`, `'\\'`, "B'01'", "X'ff'", "N'n'", "U&'d\\0061t'", "U&'d!0061t' UESCAPE '!'", `U&"d\0061t"`, "$$ $$", "$$ ' $$", "$a$ $$ $a$", "$a$ WHERE $b$ $a$", "$_1$;$_1$",
	`"a"`, `"WHERE"`, `"a""b"`, `"; --"`, `"'"`, `"$$"`, `"RETURNING"`, "a$b", "a$1", "_$$", "é", "ÄÖ",
	"$1", "$2", "$10", "$1::int", "::text", "::int[]", ":: text [ ]", "[1]", "[1:2]", "ARRAY[1]", ".", ".a", ".*", "a.b", "..", ":", ":=", "=>", "|| '-'",
	"-", "- -1", "+-1", "<-1", "@-1", "!=-1", "<>", "->", "->>", "#>", "#>>", "?", "?|", "?&", "@>", "<@", "%", "^", "|/", "!!", "~*", "!~~", "*<>", "OPERATOR(pg_catalog.+)",
	"1", "1.", ".5", "1e5", "1.5e-3", "0x1F", "0b1", "0o7", "1_000", "NULL", "TRUE", "null::text",
	"insert", "update", "delete", "merge", "set", "values", "value", "of", "analyze", "update.set", "a.where", "do", "conflict", "matched", "recursive", "begin", "atomic", "end", "returning",
	"CASE WHEN a THEN b END", "EXISTS (SELECT 1 WHERE 1 = 1)", "(SELECT a FROM b WHERE c)", "a(b, c)", "count(*) FILTER (WHERE x)", "extract(year FROM a)", "substring(a FROM 1 FOR 2)",
	"trim(both FROM a)", "overlay(a PLACING b FROM 1)", "position(a IN b)", "a IS NOT NULL", "a COLLATE \"C\"", "a AT TIME ZONE 'x'", "interval '1' day", "ROW(a, b)", "(a, b) = (1, 2)",
	"x AS (DELETE FROM t WHERE a RETURNING *)", "x AS (SELECT 1)", "WITH x AS (SELECT 1)", "WITH x AS (UPDATE t SET a = 1 WHERE b RETURNING *)", "WITH x AS (MERGE INTO t USING u ON a WHEN MATCHED THEN DELETE)",
	"WITH x AS NOT MATERIALIZED (SELECT 1)", "SEARCH DEPTH FIRST BY a SET b", "CYCLE a SET b USING c", "TABLESAMPLE bernoulli (1)", "WITH ORDINALITY", "JOIN LATERAL (SELECT 1) x ON true",
	"sqlfence_k", "sqlfence_guard", `"sqlfence_k"`, "SQLFENCE_GUARD", `U&"sqlfence\005fk"`, "sqlfence_k1", "sqlfence_k2", "sqlfence_guard1", "sqlfence_guard2", "ok", "sqlfence.nothing", "sqlfence.pass",
	"\u00a0", "\u3000", "\ufeff", "\v", "\f", "\r", "\r\n", "-- c\r", "-- \u2028 x",
}

// framesPostgreSQL put a statement to another use; %s is its text.
var framesPostgreSQL = []string{
	"EXPLAIN %s", "EXPLAIN ANALYZE", "EXPLAIN (ANALYZE)", "EXPLAIN /* %s */", "EXPLAIN ANALYZE %s", "EXPLAIN (ANALYZE, COSTS OFF) %s", "EXPLAIN (ANALYZE false) %s", "EXPLAIN (ANALYZE off, ANALYZE) %s", "EXPLAIN (COSTS OFF, analyze 1) %s", "explain verbose %s", "EXPLAIN ANALYZE VERBOSE %s", `EXPLAIN ("analyze") %s`,
	"EXPLAIN (FORMAT JSON, ANALYZE 'on') %s", "WITH w AS (%s) SELECT * FROM w", "WITH w AS (%s) UPDATE t SET a = 1", "WITH w AS (%s) DELETE FROM t WHERE a OR b", "WITH w AS (%s) INSERT INTO t TABLE w", "WITH w AS (%s) SELECT 1 UNION SELECT 2",
	"WITH w AS MATERIALIZED (%s), v AS (SELECT 1) MERGE INTO t USING v ON a WHEN MATCHED THEN DELETE", "WITH RECURSIVE w(a, b) AS (%s) TABLE w", "(%s)", "((%s))", "(WITH w AS (%s) SELECT 1)", "SELECT (%s)", "SELECT * FROM (%s) x", "SELECT EXISTS (%s)", "SELECT ARRAY(%s)",
	"SELECT * FROM (WITH w AS (%s) SELECT 1) x", "INSERT INTO t %s", "INSERT INTO t (a) (%s)", "INSERT INTO t %s RETURNING *", "INSERT INTO t AS x (a) %s ON CONFLICT (a) DO UPDATE SET b = excluded.b WHERE x.a OR x.b", "UPDATE t SET a = (%s) WHERE b", "UPDATE t SET (a, b) = (%s) WHERE b OR c", "DELETE FROM t WHERE EXISTS (%s) OR true",
	"UPDATE t SET a = 1 FROM (%s) x", "DELETE FROM t USING (%s) AS x WHERE x.a = t.a OR b", "MERGE INTO t USING (%s) x ON x.a = t.a WHEN MATCHED AND x.b OR x.c THEN UPDATE SET b = 1 WHEN NOT MATCHED THEN INSERT VALUES (x.a)", "PREPARE p AS %s", "PREPARE p (int, text) AS %s", "DECLARE c CURSOR FOR %s", "DECLARE c BINARY SCROLL CURSOR WITH HOLD FOR %s", "COPY (%s) TO STDOUT",
	"COPY (%s) TO '/tmp/x'", "CREATE TABLE n AS %s", "CREATE TEMP TABLE n (a) AS %s WITH NO DATA", "CREATE MATERIALIZED VIEW n AS %s", "CREATE VIEW n AS %s", "CREATE RULE r AS ON INSERT TO t DO INSTEAD %s", "CREATE RULE r AS ON UPDATE TO t DO (%s; DELETE FROM t)", "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC %s; END", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $f$ %s $f$", "CREATE PROCEDURE f() LANGUAGE sql RETURN (%s)",
	"CREATE SCHEMA s CREATE VIEW v AS %s", "DO $d$ BEGIN %s; END $d$", "%s;", "; %s", "%s ; ;", "%s -- end", "%s; -- end", "%s /* end */", "-- start\n%s", "/* start */ %s", "--\n\n/* '*/%s", "SELECT 1; %s", "%s; SELECT 1", "%s; DELETE FROM t", "BEGIN; %s; COMMIT", "EXECUTE p; %s", "\ufeff%s", "\\ %s", "-- c\rCOMMIT", "/* %s */ ROLLBACK", "; END", "-- c\fEND\n", "\v BEGIN", "ABORT /* %s */",
}

// next makes one statement.
func (m *mutator) next() string {
	list := append([]string(nil), m.anyTokens()...)
	for steps := 1; steps > 0; steps-- {
		if m.rand.IntN(2) == 0 {
			steps++
		}
		list = m.step(list)
		if len(list) == 0 || len(list) > 2000 {
			list = append([]string(nil), m.anyTokens()...)
		}
	}
	text := m.join(list)
	for m.rand.IntN(3) == 0 && len(text) < 5000 {
		text = strings.Replace(m.frames[m.rand.IntN(len(m.frames))], "%s", text, 1)
	}
	return strings.ReplaceAll(text, "\x00", "")
}

// keep makes a statement that parsed a parent of later ones.
func (m *mutator) keep(text string, write bool) {
	const most = 20_000
	list := cut(text)
	if len(list) == 0 || len(list) > 400 {
		return
	}
	generation := &m.pool
	if write {
		generation = &m.writes
	}
	if len(*generation) < most {
		*generation = append(*generation, list)
	} else {
		(*generation)[m.rand.IntN(len(*generation))] = list
	}
}

// anyTokens returns the tokens of a statement: of a write, two times of three.
func (m *mutator) anyTokens() []string {
	pool := m.pool
	if len(m.writes) > 0 && m.rand.IntN(3) > 0 {
		pool = m.writes
	}
	return pool[m.rand.IntN(len(pool))]
}

// step changes a list of tokens in one place.
func (m *mutator) step(list []string) []string {
	at := m.rand.IntN(len(list))
	insert := func(i int, s ...string) []string {
		return append(append(append([]string(nil), list[:i]...), s...), list[i:]...)
	}
	switch m.rand.IntN(14) {
	case 0, 1: // an odd token more
		return insert(m.rand.IntN(len(list)+1), m.odd())
	case 2, 3: // an odd token instead
		list[at] = m.odd()
	case 4: // a token less
		return append(list[:at:at], list[at+1:]...)
	case 5: // two tokens change places
		other := m.rand.IntN(len(list))
		list[at], list[other] = list[other], list[at]
	case 6: // a token of another statement
		donor := m.anyTokens()
		list[at] = donor[m.rand.IntN(len(donor))]
	case 7: // a run of another statement
		donor := m.anyTokens()
		from := m.rand.IntN(len(donor))
		to := min(len(donor), from+1+m.rand.IntN(12))
		return insert(at, donor[from:to]...)
	case 8: // brackets around a run
		end := min(len(list), at+1+m.rand.IntN(8))
		list = insert(end, ")")
		return append(append(append([]string(nil), list[:at]...), "("), list[at:]...)
	case 9, 10: // a bracketed group of another statement instead of one's own
		from, to := m.group(list)
		donor := m.anyTokens()
		dfrom, dto := m.group(donor)
		if from < to && dfrom < dto {
			return append(append(append([]string(nil), list[:from]...), donor[dfrom:dto]...), list[to:]...)
		}
	case 11: // the tail of another statement that starts at the same word
		donor := m.anyTokens()
		start := m.rand.IntN(len(donor))
		for i := range donor {
			j := (start + i) % len(donor)
			if strings.EqualFold(donor[j], list[at]) {
				return append(append([]string(nil), list[:at]...), donor[j:]...)
			}
		}
	case 12: // a run of one's own again
		end := min(len(list), at+1+m.rand.IntN(8))
		return insert(m.rand.IntN(len(list)), list[at:end]...)
	case 13: // a name that is a keyword elsewhere
		for i := range list {
			j := (at + i) % len(list)
			if c := list[j][0]; c >= 'a' && c <= 'z' {
				list[j] = []string{"update", "delete", "insert", "merge", "set", "values", "analyze", "returning", "matched", "do", `"where"`, `"select"`, "recursive", "begin", "of", "only_", "ok", "sqlfence_k"}[m.rand.IntN(18)]
				break
			}
		}
	}
	return list
}

func (m *mutator) odd() string { return m.odds[m.rand.IntN(len(m.odds))] }

// rough cuts texts that PostgreSQL's scanner refuses.
var rough = regexp.MustCompile("(?s)'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\\[[^\\]]*\\]|--[^\n]*|/\\*.*?\\*/|[?:@$]\\w+|\\w+|[<>=!|]+|\\S")

func cut(text string) []string {
	if list, err := tokens(text); err == nil {
		return list
	}
	return rough.FindAllString(text, -1)
}

// group finds a bracketed group in a list: from its opening bracket to after
// its closing one.
func (m *mutator) group(list []string) (from, to int) {
	start := m.rand.IntN(len(list))
	for i := range list {
		from = (start + i) % len(list)
		if list[from] != "(" {
			continue
		}
		depth := 0
		for to = from; to < len(list); to++ {
			switch list[to] {
			case "(":
				depth++
			case ")":
				depth--
			}
			if depth == 0 {
				return from, to + 1
			}
		}
	}
	return 0, 0
}

// join writes the tokens down, sometimes without the space between two of them
// and sometimes with something else than a space.
func (m *mutator) join(list []string) string {
	var b strings.Builder
	tight := m.rand.IntN(4) == 0
	for i, t := range list {
		if i > 0 {
			switch r := m.rand.IntN(40); {
			case tight && r < 30, r == 0:
			case r == 1:
				b.WriteString("\n")
			case r == 2:
				b.WriteString("\t\f\v")
			case r == 3:
				b.WriteString("/* '\"$$ */")
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteString(t)
		if strings.HasPrefix(t, "--") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
