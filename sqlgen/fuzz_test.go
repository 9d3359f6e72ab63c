package sqlgen

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The seeds of the fuzz targets; texts that fuzzing made and that reach other
// parts of the code are in testdata/fuzz.
var seeds = []string{
	`UPDATE d SET v = $1 WHERE id = $2 OR a -- c`, `DELETE FROM d RETURNING *;`, `INSERT INTO d (a) VALUES (?, :b), (?2, @c) ON CONFLICT (a) DO UPDATE SET b = ? RETURNING a`,
	`INSERT INTO d SELECT * FROM e LIMIT ? OFFSET 2`, `WITH RECURSIVE x AS (DELETE FROM d RETURNING *) SELECT * FROM x`, `MERGE INTO d USING e ON true WHEN MATCHED THEN DELETE`,
	`SELECT insert INTO d FROM e`, `EXPLAIN ("analyze") DELETE FROM d`, `COPY (DELETE FROM d RETURNING *) TO STDOUT`, `CREATE TRIGGER t AFTER INSERT ON d BEGIN DELETE FROM e; END; COMMIT`,
	`CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END`, "UPDATE d SET v = E'a\\'' -- x\n'\\'b' WHERE $a$ $$ $a$ = U&'x'", "\ufeffDELETE FROM [d] WHERE `a` = x'00' /* b", `UPDATE sqlfence_k SET "where" = 1 WHERE CURRENT OF c`,
	`PREPARE TRANSACTION 'x'; PRAGMA user_version = 1`, `TRUNCATE a, b CASCADE`, `UPDATE d SET a = 1 WHERE (b) AND 0xFF = .5e1 ? 'k' ?| $1`, `SELECT 1 AS AS AS where`,
}

var engines = []Engine{PostgreSQL, SQLite, MySQL}

// mysqlSeeds are those of [FuzzMySQL].
var mysqlSeeds = []string{
	"INSERT INTO d (a, `b`) VALUES (?, 'x''y', \"z\", _utf8'u', DATE_ADD(?, INTERVAL 1 DAY)) # c", "INSERT IGNORE d PARTITION (p) (SELECT a FROM e HAVING b OR c ORDER BY d) ON DUPLICATE KEY UPDATE a = VALUES(a)",
	"REPLACE LOW_PRIORITY d VALUE (1) RETURNING *", "INSERT INTO d WITH x AS (SELECT 1) SELECT * FROM x USE INDEX FOR ORDER BY (i) LOCK IN SHARE MODE", "INSERT INTO d SET a = DEFAULT", "INSERT INTO d VALUES ROW(1), ROW(2)",
	"UPDATE LOW_PRIORITY d AS x JOIN s.e ON x.a = e.b SET x.v = @a := 1--1, e.w = 1e5 WHERE(a)OR(b) ORDER BY 1 LIMIT ?", "UPDATE d FOR PORTION OF p FROM 1 TO 2 SET t.1e5 = 0x1G, `a``b` = {d '2020-01-01'} -- x",
	"DELETE FROM d x WHERE a -> '$.b' ->> \"c\" && b || c RETURNING d", "DELETE a, b.* FROM a, (SELECT 1) b WHERE @@session.x = @'y'", "DELETE FROM a, c USING a JOIN c USING (id)", "SET STATEMENT a = 1, b = 2 FOR DELETE FROM d",
	"CREATE PROCEDURE p() BEGIN IF a THEN SELECT CASE WHEN 1 THEN 2 END; END IF; END; COMMIT", "BEGIN NOT ATOMIC REPEAT SET a = 1; UNTIL b END REPEAT; END", "XA COMMIT 'x'; SET autocommit = 0; LOCK TABLES d READ",
	"LOAD DATA INFILE 'x' INTO TABLE d", "EXPLAIN ANALYZE UPDATE d SET v = 1", "DELETE /*+ QB_NAME(`x`) */ FROM d WHERE 'a\\\\' = \\N /*! OR 1 */", "SELECT 'ü\\' FROM 2tab WHERE 1.5e3 --1", "WITH sqlfence_guard AS (SELECT 1) DELETE FROM d",
	"CREATE TRIGGER t BEFORE INSERT ON d FOR EACH ROW l: LOOP LEAVE l; END LOOP", "ANALYZE FORMAT=JSON DELETE FROM d",
}

func addSeeds(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	for _, s := range mysqlSeeds {
		f.Add(s)
	}
}

// FuzzTokens: the tokens and what lies between them are the text, and only
// white space and comments lie between them.
func FuzzTokens(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range engines {
			w := newWalker(e, text)
			if w.read() != nil {
				continue
			}
			from := int32(0)
			for i, k := range w.tokens {
				if k.start < from || k.end() <= k.start || int(k.end()) > len(text) {
					t.Fatalf("%v: token %d of %q is [%d:%d], behind %d", e, i, text, k.start, k.end(), from)
				}
				onlySpace(t, e, text[from:k.start])
				if (k.punct == '(' || k.punct == '[') && w.partner(w.partner(i)) != i {
					t.Fatalf("%v: the bracket at %d of %q has no partner", e, k.start, text)
				}
				from = k.end()
			}
			onlySpace(t, e, text[from:])
			w.free()
		}
	})
}

func onlySpace(t *testing.T, e Engine, gap string) {
	t.Helper()
	for gap != "" {
		switch {
		case strings.HasPrefix(gap, "#") && e == MySQL:
			_, gap, _ = strings.Cut(gap, "\n")
		case strings.HasPrefix(gap, "--"):
			if e == MySQL && len(gap) > 2 && gap[2] > ' ' && gap[2] != 0x7f {
				t.Fatalf("%v: skipped two minuses: %q", e, gap)
			}
			_, gap, _ = strings.Cut(gap, "\n")
			if e == PostgreSQL {
				return // it may have ended at a carriage return: another token would follow
			}
		case strings.HasPrefix(gap, "/*"):
			if e == PostgreSQL {
				return // comments nest
			}
			_, gap, _ = strings.Cut(gap[2:], "*/")
		case strings.HasPrefix(gap, "\ufeff") && e == SQLite:
			gap = gap[len("\ufeff"):]
		case strings.ContainsRune(" \t\n\v\f\r", rune(gap[0])):
			gap = gap[1:]
		default:
			t.Fatalf("%v: skipped %q", e, gap)
		}
	}
}

// FuzzSplice: nothing panics, what is not understood is a write and refused,
// and a spliced text is the same statement, with the fence in it once.
func FuzzSplice(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range engines {
			fuzzPlan(t, e, text)
		}
	})
}

// FuzzMySQL is FuzzSplice for one engine, whose rules are the youngest.
func FuzzMySQL(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) { fuzzPlan(t, MySQL, text) })
}

func fuzzPlan(t *testing.T, e Engine, text string) {
	t.Helper()
	p := Analyze(e, text)
	if p.Text() != text || p.Engine != e {
		t.Fatalf("%v: the plan of %q is that of %v %q", e, text, p.Engine, p.Text())
	}
	if p.Kind == KindUnknown && (p.Strategy != Refuse || p.Tables != nil) {
		t.Fatalf("%v: %q is not understood, and yet %v on %v", e, text, p.Strategy, p.Tables)
	}
	if p.Writes() == (p.Strategy == Pass) && (p.Writes() || !changesTransaction(p.Kind)) {
		t.Fatalf("%v: %q writes: %v, and is %v", e, text, p.Writes(), p.Strategy)
	}
	if p.Strategy == Refuse && (p.Reason == "" || p.Advice == "") {
		t.Fatalf("%v: %q is refused without a reason or an advice", e, text)
	}
	if !MayChangeTransaction(e, text) && (p.Commits || slices.ContainsFunc(p.Kinds(), changesTransaction)) {
		t.Fatalf("%v: %q holds %v, commits: %v, and MayChangeTransaction says that it changes nothing", e, text, p.Kinds(), p.Commits)
	}
	if p.Strategy == Splice {
		fuzzSpliced(t, p)
	}
}

func changesTransaction(k Kind) bool {
	switch k {
	case KindBegin, KindCommit, KindRollback, KindSavepoint, KindRelease, KindRollbackTo, KindPrepareTx, KindAttach:
		return true
	}
	return false
}

func fuzzSpliced(t *testing.T, p *Plan) {
	for n := 1; n <= 2; n++ {
		got, err := p.Guarded(n)
		if err != nil {
			if p.Params+n*TokenParams <= maxSQLiteParams {
				t.Fatalf("%v: %q: %v", p.Engine, p.text, err)
			}
			return
		}
		again := Analyze(p.Engine, got)
		if again.Kind != p.Kind || again.Strategy != Splice && (!p.Raises() || again.Strategy != CheckFirst) || again.Params != p.Params+n*TokenParams {
			t.Fatalf("%v: %q is %v with %d parameters, and spliced %v: %v %s with %d\n%s", p.Engine, p.text, p.Kind, p.Params, again.Kind, again.Strategy, again.Reason, again.Params, got)
		}
		if utf8.ValidString(p.text) != utf8.ValidString(got) {
			t.Fatalf("%v: a character of %q was cut", p.Engine, p.text)
		}
		// The user's tokens are all there, in their order.
		before, after := tokensOf(p.Engine, p.text), tokensOf(p.Engine, got)
		for _, b := range before {
			i := slices.Index(after, b)
			if i < 0 && b == "?" {
				i = slices.IndexFunc(after, func(a string) bool { return a[0] == '?' })
			}
			if i < 0 {
				t.Fatalf("%v: %q lost %q\n%s", p.Engine, p.text, b, got)
			}
			after = after[i+1:]
		}
		fence := "sqlfence.pass("
		switch p.Engine {
		case SQLite:
			fence = "main.sqlfence_fences AS sqlfence_f WHERE"
		case MySQL:
			fence = "sqlfence_guard AS sqlfence_g WHERE"
			if at := strings.Index(got, fence); !strings.Contains(p.text, fence) && paramsBefore(p.Engine, got, at) != p.At {
				t.Fatalf("%v: %q has other than %d parameters before the fence\n%s", p.Engine, p.text, p.At, got)
			}
		}
		if strings.Count(got, fence)-strings.Count(p.text, fence) != n {
			t.Fatalf("%v: %q has the fence other than %d times\n%s", p.Engine, p.text, n, got)
		}
	}
}

// paramsBefore counts the parameters that stand before the byte.
func paramsBefore(e Engine, text string, at int) (n int) {
	w := newWalker(e, text)
	defer w.free()
	if w.read() == nil {
		for i := range w.tokens {
			if w.tokens[i].kind == tokenParam && int(w.tokens[i].start) < at {
				n++
			}
		}
	}
	return n
}

func tokensOf(e Engine, text string) (all []string) {
	w := newWalker(e, text)
	defer w.free()
	if w.read() == nil {
		for i := range w.tokens {
			all = append(all, w.spelled(i))
		}
	}
	return all
}

// FuzzUnbalanced: a closing bracket put anywhere between tokens makes a text
// that is refused, never one that is guarded in part.
func FuzzUnbalanced(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, place int) {
		for _, e := range engines {
			w := newWalker(e, text)
			if w.read() != nil || len(w.tokens) == 0 {
				continue
			}
			at := w.tokens[uint(place)%uint(len(w.tokens))].end()
			w.free()
			if strings.HasSuffix(text[:at], "/*") || strings.HasSuffix(text[:at], "--") {
				continue // two operators, which become a comment with something else behind them
			}
			for _, bracket := range []string{")", " ) OR ", "("} {
				if p := Analyze(e, text[:at]+bracket+text[at:]); p.Strategy != Refuse {
					t.Fatalf("%v: %q is %v", e, p.text, p.Strategy)
				}
			}
		}
	})
}
