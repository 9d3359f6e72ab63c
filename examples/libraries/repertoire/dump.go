package repertoire

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// dump tells all rows of all tables but the fence's and those apart, in an order of its own. Of a
// moment it tells only that there is one: the twins' clocks differ.
func dump(t *testing.T, s Subject, db *sql.DB) string {
	t.Helper()
	var out strings.Builder
	for _, table := range names(t, db, s.Engine.tables) {
		if slices.Contains(s.Apart, table) {
			continue
		}
		fmt.Fprintf(&out, "%s\n", table)
		rows := rowsOf(t, db, `SELECT * FROM `+s.Engine.quote+table+s.Engine.quote, s.Engine)
		slices.Sort(rows)
		for _, row := range rows {
			fmt.Fprintf(&out, "  %s\n", row)
		}
	}
	if s.Random != nil {
		return s.Random.ReplaceAllString(out.String(), "random")
	}
	return out.String()
}

func names(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		found = append(found, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

func rowsOf(t *testing.T, db *sql.DB, query string, e Engine) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, e.looks...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]any
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		all = append(all, values)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, values := range all {
		var row strings.Builder
		for i, column := range columns {
			if blob, ok := values[i].([]byte); ok && e.document != "" {
				values[i] = document(t, db, e.document, blob)
			}
			fmt.Fprintf(&row, "%s=%s ", column, shown(values[i]))
		}
		found = append(found, row.String())
	}
	return found
}

// document returns the text of a document that is stored in a form of the engine's own,
// which tells the lengths of what is in it, a moment's among them; blob if it is none.
func document(t *testing.T, db *sql.DB, query string, blob []byte) any {
	t.Helper()
	var text sql.NullString
	if err := db.QueryRowContext(t.Context(), query, blob).Scan(&text); err != nil {
		t.Fatal(err)
	}
	if text.Valid {
		return text.String
	}
	return blob
}

// moment is a time as text, as programs write it into JSON.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

func shown(v any) string {
	switch v := v.(type) {
	case time.Time:
		return "moment"
	case []byte:
		return moment.ReplaceAllString(string(v), "moment")
	case string:
		return moment.ReplaceAllString(v, "moment")
	case nil:
		return "NULL"
	default:
		return fmt.Sprintf("%v", v)
	}
}
