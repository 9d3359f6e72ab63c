package sqlgen

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Each word of the user's text is found where it stands, and what was inserted where
// it was put in.
func TestPlacesInTheSplicedTextAreThoseOfTheUsersText(t *testing.T) {
	for _, text := range []string{
		`UPDATE d SET v = 'ü', nope = $1 WHERE id = $2 OR "日本" RETURNING x`,
		"  -- ü\n\tUPDATE d SET nope = $1",
		`DELETE FROM d WHERE $1 = nope /* é */ RETURNING nope`,
		`WITH a AS (SELECT $1 AS x) INSERT INTO d SELECT x, $2 FROM a`,
		`INSERT INTO d (nope) VALUES ($1, 'ß')`,
	} {
		for n := 1; n <= 2; n++ {
			for _, widths := range [][]int{nil, {7, 11, 3, 4, 5, 30, 2, 9}} {
				p := Analyze(PostgreSQL, text)
				spliced, err := p.Guarded(n)
				if err != nil {
					t.Fatal(err)
				}
				written := func(text string) string {
					if widths == nil {
						return text
					}
					for i := len(widths); i > 0; i-- {
						text = strings.ReplaceAll(text, "$"+string(rune('0'+i)), strings.Repeat("é", widths[i-1]))
					}
					return text
				}
				user, sent := written(text), written(spliced)
				for _, word := range []string{"UPDATE", "DELETE", "INSERT", "SET", "nope", "WHERE", "RETURNING", "日本", "id", "FROM a", "VALUES", "'ß'"} {
					want, at := strings.LastIndex(user, word), strings.LastIndex(sent, word)
					if want < 0 {
						continue
					}
					place := utf8.RuneCountInString(sent[:at]) + 1
					if got, want := p.Position(n, place, widths), utf8.RuneCountInString(user[:want])+1; got != want {
						t.Errorf("%q, %d tokens, widths %v: %s at %d is said to be at %d, want %d", text, n, widths, word, place, got, want)
					}
				}
				end := utf8.RuneCountInString(user) + 1
				if got := p.Position(n, utf8.RuneCountInString(sent)+1, widths); got != end {
					t.Errorf("%q: the end is said to be at %d, want %d", text, got, end)
				}
				last := 0
				for place := range utf8.RuneCountInString(sent) + 2 {
					got := p.Position(n, place, widths)
					if got < last || got > end {
						t.Fatalf("%q: place %d is said to be at %d, behind one at %d", text, place, got, last)
					}
					last = got
				}
			}
		}
	}
	if got := Analyze(PostgreSQL, "SELECT 1").Position(1, 7, nil); got != 7 {
		t.Errorf("what is not spliced: got %d", got)
	}
}
