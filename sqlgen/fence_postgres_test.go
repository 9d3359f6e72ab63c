package sqlgen

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Whatever is looked up by search_path at run time is a way in (SPEC G10). The
// tests of internal/fencetest try ways in on real servers; this one reads the
// script, so that a way that nobody thought of there is closed too.
func TestThePostgreSQLSchemaNamesEverythingInFull(t *testing.T) {
	text := regexp.MustCompile(`--[^\n]*`).ReplaceAllString(Schema(PostgreSQL), "")
	text = strings.ReplaceAll(text, "#variable_conflict use_column", "")
	text = regexp.MustCompile(`'[^']*'`).ReplaceAllString(text, "''")

	operators := regexp.MustCompile(`OPERATOR\(pg_catalog\.[^)]+\)|:=|=>|::`).ReplaceAllString(text, " ")
	assignment := regexp.MustCompile(`\b(ERRCODE|MESSAGE|DETAIL|HINT|lock_timeout|fillfactor) = |(\bSET|,)\s+[a-z_]+ = `)
	operators = assignment.ReplaceAllString(operators, " ")
	for _, found := range regexp.MustCompile(`[^\n]*[-+*/<>=~!@#%^&|]+[^\n]*`).FindAllString(operators, -1) {
		t.Errorf("an operator that is not qualified: %s", found)
	}

	for _, found := range regexp.MustCompile(`::[^p]\w*`).FindAllString(strings.ReplaceAll(text, "::pg_catalog.", " "), -1) {
		t.Errorf("a type that is not qualified: %s", found)
	}
	for _, found := range regexp.MustCompile(`COLLATE [^p]\S*`).FindAllString(text, -1) {
		t.Errorf("a collation that is not qualified: %s", found)
	}

	syntax := map[string]bool{"CHECK": true, "COALESCE": true, "GREATEST": true, "LEAST": true, "OPERATOR": true, "VALUES": true,
		"EXISTS": true, "ARRAY": true, "ANY": true, "FROM": true, "AND": true, "OR": true, "CONFLICT": true, "TABLE": true, "AS": true, "WITH": true, "FUNCTION": true}
	for _, found := range regexp.MustCompile(`(^|[^\w.])("?\w+"?) ?\(`).FindAllStringSubmatch(text, -1) {
		name := found[2]
		if !syntax[name] && !regexp.MustCompile(`(INSERT INTO|TABLE IF NOT EXISTS) sqlfence\.\w+( AS)? `+name+` \(`).MatchString(text) &&
			!regexp.MustCompile(`AS `+name+` \(`).MatchString(text) {
			t.Errorf("a function that is not qualified: %s", name)
		}
	}
	for _, found := range regexp.MustCompile(`\b(FROM|JOIN|INTO|UPDATE) (ONLY )?([a-z_]+) `).FindAllStringSubmatch(text, -1) {
		if relation := found[3]; relation != "PUBLIC" && found[1] != "INTO" {
			t.Errorf("a table that is not qualified: %s", found[0])
		}
	}
	// Syntax that looks up the operator behind it by search_path.
	for _, word := range []string{"BETWEEN", "NULLIF", "DISTINCT", "LIKE", "ILIKE", "SIMILAR", "USING (", "USING(", "NATURAL", " IN (", " IN(", "OVERLAPS"} {
		if strings.Contains(text, word) {
			t.Errorf("the script uses %q", word)
		}
	}
	if found := regexp.MustCompile(`CASE\s+[^W\s]`).FindString(text); found != "" {
		t.Errorf("the script uses CASE with an operand: %q", found)
	}
	functions := strings.Count(text, "CREATE OR REPLACE FUNCTION")
	if definer := strings.Count(text, "SECURITY DEFINER") + strings.Count(text, "SECURITY INVOKER"); definer != functions-1 {
		t.Errorf("%d of %d functions say with whose rights they run; all but schema_version have to", definer, functions)
	}
	if !strings.Contains(Schema(PostgreSQL), "AS 'SELECT "+strconv.Itoa(SchemaVersion)+"'") {
		t.Errorf("the script does not create version %d", SchemaVersion)
	}
}

func TestPostgreSQLGrantsQuoteTheRole(t *testing.T) {
	got := Grants(PostgreSQL, `app"; DROP SCHEMA sqlfence; --`)
	if n := strings.Count(got, `TO "app""; DROP SCHEMA sqlfence; --";`); n != 3 {
		t.Errorf("%d of 3 statements quote the role:\n%s", n, got)
	}
}

func TestPostgreSQLCheckNumbersItsParameters(t *testing.T) {
	want := "SELECT sqlfence.pass($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.int8)" +
		" AND sqlfence.pass($4::pg_catalog.text, $5::pg_catalog.int8, $6::pg_catalog.int8)"
	if got := CheckSQL(PostgreSQL, 2); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
