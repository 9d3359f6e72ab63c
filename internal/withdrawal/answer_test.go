package withdrawal

import "testing"

func TestOnlyAServersWordIsAnAnswer(t *testing.T) {
	for state, want := range map[string]bool{
		"": false, "08P01": false, "08006": false, "57P01": false, "57P02": false, "58000": false,
		"57014": true, "40001": true, "SF004": true, "23505": true, "XX000": true,
	} {
		if got := Answered(state); got != want {
			t.Errorf("Answered(%q) is %t", state, got)
		}
	}
	for number, want := range map[int]bool{
		0: false, 2003: false, 2006: false, 2013: false, // "Lost connection to server during query", of a proxy
		1205: true, 1213: true, 1644: true, 3572: true, 4025: true,
	} {
		if got := AnsweredMySQL(number); got != want {
			t.Errorf("AnsweredMySQL(%d) is %t", number, got)
		}
	}
}
