package sqlgen_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// A spliced text is written down in the tables of these tests with
//
//	[head 3]   the WITH member that checks, its parameters from $3 on
//	[check 3]  the two members that check first
//	[ok]       the condition that reads their answer
//	[fence 3]  the predicate of SQLite, its parameters from ?3 on
//	[mine]     the predicate of MySQL
//
// which stand for the texts below.
var abbreviation = regexp.MustCompile(`\[(head|check|ok|fence|mine)(?: (\d+))?\]`)

func expand(t *testing.T, short string) string {
	t.Helper()
	return abbreviation.ReplaceAllStringFunc(short, func(s string) string {
		m := abbreviation.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[2])
		pass := fmt.Sprintf("sqlfence.pass($%d::pg_catalog.text, $%d::pg_catalog.int8, $%d::pg_catalog.int8)", n, n+1, n+2)
		switch {
		case m[1] == "ok":
			return "(SELECT sqlfence_k.ok FROM sqlfence_k)"
		case m[1] == "mine":
			return "EXISTS (SELECT /*+ NO_SEMIJOIN() */ 1 FROM sqlfence_guard AS sqlfence_g WHERE sqlfence_g.resource = UNHEX(CONVERT(? USING ascii)) AND sqlfence_g.high_water = ?" +
				" AND sqlfence_g.grant_id = ? AND sqlfence_g.at = CURRENT_TIMESTAMP(6) LOCK IN SHARE MODE)"
		case n == 0:
			t.Fatalf("%s without a number", s)
		case m[1] == "head":
			return "sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT WHERE NOT (SELECT " + pass + "))"
		case m[1] == "check":
			return "sqlfence_k AS MATERIALIZED (SELECT " + pass + " AS ok), " +
				"sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT FROM sqlfence_k WHERE NOT sqlfence_k.ok)"
		}
		return fmt.Sprintf("EXISTS (SELECT 1 FROM main.sqlfence_fences AS sqlfence_f WHERE sqlfence_f.resource = ?%d"+
			" AND sqlfence_f.high_water = ?%d AND sqlfence_f.grant_id = ?%d)", n, n+1, n+2)
	})
}

// shape is a statement and what becomes of it under one token.
type shape struct {
	name string
	text string
	want string // in short form
}

func testShapes(t *testing.T, engine sqlgen.Engine, shapes []shape) {
	t.Helper()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			plan := sqlgen.Analyze(engine, s.text)
			if plan.Strategy != sqlgen.Splice {
				t.Fatalf("%s\nis not spliced: %v: %s", s.text, plan.Strategy, plan.Reason)
			}
			got, err := plan.Guarded(1)
			if err != nil {
				t.Fatal(err)
			}
			if want := expand(t, s.want); got != want {
				t.Errorf("%s\nbecame   %s\nexpected %s", s.text, got, want)
			}
			if engine == sqlgen.MySQL && strings.Contains(got, " FROM DUAL HAVING ") {
				return // VALUES and the brackets of the row are gone
			}
			// The edits leave every byte of the user's text where it was.
			rest := got
			for i := range len(s.text) {
				at := strings.IndexByte(rest, s.text[i])
				if at < 0 {
					t.Fatalf("byte %d of the text is lost", i)
				}
				rest = rest[at+1:]
			}
		})
	}
}

func TestThePostgreSQLTextsInFull(t *testing.T) {
	for _, c := range []struct {
		name, text string
		tokens     int
		want       string
	}{
		{"an UPDATE checks before it looks at a row", "UPDATE jobs SET status = $1 WHERE id = $2", 1,
			"WITH sqlfence_k AS MATERIALIZED (SELECT sqlfence.pass($3::pg_catalog.text, $4::pg_catalog.int8, $5::pg_catalog.int8) AS ok), " +
				"sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT FROM sqlfence_k WHERE NOT sqlfence_k.ok) " +
				"UPDATE jobs SET status = $1 WHERE (SELECT sqlfence_k.ok FROM sqlfence_k) AND (id = $2)"},
		{"an INSERT has the check at its head alone", "INSERT INTO jobs (id) VALUES ($1)", 1,
			"WITH sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT WHERE NOT " +
				"(SELECT sqlfence.pass($2::pg_catalog.text, $3::pg_catalog.int8, $4::pg_catalog.int8))) " +
				"INSERT INTO jobs (id) VALUES ($1)"},
		{"several tokens are asked about in their order", "DELETE FROM jobs", 3,
			"WITH sqlfence_k AS MATERIALIZED (SELECT " +
				"CASE WHEN sqlfence.pass($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.int8) THEN " +
				"CASE WHEN sqlfence.pass($4::pg_catalog.text, $5::pg_catalog.int8, $6::pg_catalog.int8) THEN " +
				"sqlfence.pass($7::pg_catalog.text, $8::pg_catalog.int8, $9::pg_catalog.int8) ELSE false END ELSE false END AS ok), " +
				"sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT FROM sqlfence_k WHERE NOT sqlfence_k.ok) " +
				"DELETE FROM jobs WHERE (SELECT sqlfence_k.ok FROM sqlfence_k)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := sqlgen.Analyze(sqlgen.PostgreSQL, c.text).Guarded(c.tokens)
			if err != nil || got != c.want {
				t.Errorf("%s\nbecame   %s (%v)\nexpected %s", c.text, got, err, c.want)
			}
		})
	}
}

func TestTheMySQLTextsInFull(t *testing.T) {
	const fence = "sqlfence_guard AS sqlfence_g WHERE sqlfence_g.resource = UNHEX(CONVERT(? USING ascii)) AND sqlfence_g.high_water = ? AND sqlfence_g.grant_id = ?" +
		" AND sqlfence_g.at = CURRENT_TIMESTAMP(6) LOCK IN SHARE MODE)"
	for _, c := range []struct {
		name, text string
		tokens     int
		opts       []sqlgen.Option
		want       string
	}{
		{"an UPDATE checks before it looks at a row", "UPDATE jobs SET status = ? WHERE id = ?", 1, nil,
			"UPDATE jobs SET status = ? WHERE EXISTS (SELECT /*+ NO_SEMIJOIN() */ 1 FROM " + fence + " AND (id = ?)"},
		{"several tokens must all be valid", "DELETE FROM jobs", 2, nil,
			"DELETE FROM jobs WHERE EXISTS (SELECT /*+ NO_SEMIJOIN() */ 1 FROM " + fence + " AND EXISTS (SELECT /*+ NO_SEMIJOIN() */ 1 FROM " + fence},
		{"the fence of a database", "DELETE FROM jobs", 1, []sqlgen.Option{sqlgen.Database("my`app")},
			"DELETE FROM jobs WHERE EXISTS (SELECT /*+ NO_SEMIJOIN() */ 1 FROM `my``app`." + fence},
		{"no database", "DELETE FROM jobs", 1, []sqlgen.Option{sqlgen.Database("x"), sqlgen.Database("")},
			"DELETE FROM jobs WHERE EXISTS (SELECT /*+ NO_SEMIJOIN() */ 1 FROM " + fence},
		{"one row", "INSERT INTO jobs (id, status) VALUES (?, 'new')", 1, nil,
			"INSERT INTO jobs (id, status) VALUES (?, (CASE WHEN CASE WHEN EXISTS (SELECT 1 FROM DUAL WHERE NOT (EXISTS (SELECT /*+ NO_SEMIJOIN() */ 1 FROM " + fence + ")) THEN (SELECT 1 UNION ALL SELECT 2) ELSE 1 END THEN 'new' END))"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := sqlgen.Analyze(sqlgen.MySQL, c.text, c.opts...).Guarded(c.tokens)
			if err != nil || got != c.want {
				t.Errorf("%s\nbecame   %s (%v)\nexpected %s", c.text, got, err, c.want)
			}
			cache := sqlgen.NewCache(sqlgen.MySQL, c.opts...)
			if got, err := cache.Plan(c.text).Guarded(c.tokens); err != nil || got != c.want {
				t.Errorf("%s\nfrom the cache became %s (%v)", c.text, got, err)
			}
		})
	}
}

func TestTheSQLiteTextsInFull(t *testing.T) {
	for _, c := range []struct {
		name, text string
		tokens     int
		want       string
	}{
		{"an UPDATE has the fence behind its own condition", "UPDATE jobs SET status = ? WHERE id = ?", 1,
			"UPDATE jobs SET status = ?1 WHERE (id = ?2) AND EXISTS (SELECT 1 FROM main.sqlfence_fences AS sqlfence_f " +
				"WHERE sqlfence_f.resource = ?3 AND sqlfence_f.high_water = ?4 AND sqlfence_f.grant_id = ?5)"},
		{"several tokens must all be valid", "DELETE FROM jobs", 2,
			"DELETE FROM jobs WHERE EXISTS (SELECT 1 FROM main.sqlfence_fences AS sqlfence_f " +
				"WHERE sqlfence_f.resource = ?1 AND sqlfence_f.high_water = ?2 AND sqlfence_f.grant_id = ?3)" +
				" AND EXISTS (SELECT 1 FROM main.sqlfence_fences AS sqlfence_f " +
				"WHERE sqlfence_f.resource = ?4 AND sqlfence_f.high_water = ?5 AND sqlfence_f.grant_id = ?6)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := sqlgen.Analyze(sqlgen.SQLite, c.text).Guarded(c.tokens)
			if err != nil || got != c.want {
				t.Errorf("%s\nbecame   %s (%v)\nexpected %s", c.text, got, err, c.want)
			}
		})
	}
}
