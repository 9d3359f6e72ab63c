package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// serverError is what a driver makes of an error of the server.
type serverError struct{ code, message string }

func (e *serverError) Error() string    { return e.message }
func (e *serverError) SQLState() string { return e.code }

// D32: what an error means is told by its SQLSTATE and by texts of ours, which no
// server translates; never by words of the server's.
func TestErrorsAreToldByTheirSQLSTATE(t *testing.T) {
	for _, tt := range []struct {
		name          string
		err           error
		spent, answer bool
		is            error
	}{
		{"spent wait", &serverError{"57014", `FEHLER: sqlfence: wait bound spent: open guarded transactions hold the fence: resource=r`}, true, true, nil},
		{"cancel", &serverError{"57014", `FEHLER: storniere Anfrage wegen Benutzeraufforderung`}, false, true, nil},
		{"statement_timeout", &serverError{"57014", `错误: 由于语句执行超时，正在取消查询命令`}, false, true, nil},
		{"spent wait's text in another error", &serverError{"23514", `sqlfence: wait bound spent`}, false, true, nil},
		{"exhausted", &serverError{"SF004", `ОШИБКА: sqlfence: epochs exhausted: resource=r`}, false, true, lease.ErrExhausted},
		{"invalid", &serverError{"SF003", `ERREUR: sqlfence: invalid input: request 0`}, false, true, guard.ErrInvalidInput},
		{"no privilege", &serverError{"42501", `keine Berechtigung für Funktion acquire`}, false, true, guard.ErrSetup},
		{"no schema", &serverError{"3F000", `Schema »sqlfence« existiert nicht`}, false, true, guard.ErrSetup},
		{"wrapped", fmt.Errorf("by an ORM: %w", &serverError{"57014", "sqlfence: wait bound spent"}), true, true, nil},
		{"a pooler has lost the server", &serverError{"08P01", `server conn crashed?`}, false, false, nil},
		{"a session is ended", &serverError{"57P01", `Verbindung wird abgebrochen aufgrund von Anweisung des Administrators`}, false, false, nil},
		{"no answer", errors.New("unexpected EOF: sqlfence: wait bound spent"), false, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := isSpent(tt.err); got != tt.spent {
				t.Errorf("isSpent: %t", got)
			}
			if got := isAnswer(tt.err); got != tt.answer {
				t.Errorf("isAnswer: %t", got)
			}
			got := explain(tt.err)
			if tt.is != nil && !errors.Is(got, tt.is) {
				t.Errorf("explained as %v, which does not match %v", got, tt.is)
			}
			if !errors.Is(got, tt.err) {
				t.Errorf("explained as %v, which does not unwrap to the server's error", got)
			}
		})
	}
}
