package guard_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// An engine that was never set, say: an error before anything is asked, and no panic.
func TestAnEngineThatThereIsNot(t *testing.T) {
	var db *sql.DB // nothing may be asked
	token := guard.Token{Resource: "r", Epoch: 1, Grant: 1}
	for _, engine := range []sqlgen.Engine{0, 4, 255} {
		f := guard.NewFence(db, engine)
		_, highWater := f.HighWater(t.Context(), "r")
		for what, err := range map[string]error{
			"Migrate":    guard.Migrate(t.Context(), db, engine),
			"CheckSetup": guard.CheckSetup(t.Context(), db, engine),
			"Protect":    guard.Protect(t.Context(), db, engine, "d"),
			"Unprotect":  guard.Unprotect(t.Context(), db, engine, "d"),
			"Check":      f.Check(t.Context(), token),
			"Advance":    f.Advance(t.Context(), token),
			"HighWater":  highWater,
		} {
			if !errors.Is(err, guard.ErrInvalidInput) {
				t.Errorf("%s with engine %d: error %v, want ErrInvalidInput", what, engine, err)
			}
		}
	}
}
