package postgres_test

import (
	"strings"
	"testing"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// The server cuts a name to 63 bytes, between two characters: in the policy as in the text.
func TestG4ListedTablesWithNamesThatTheServerCuts(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, name := range []string{strings.Repeat("a", 63) + "xyz", "t" + strings.Repeat("é", 40)} {
			w.Must(w.Bare, `CREATE TABLE `+name+` (v text)`)
			w.Must(w.Bare, `INSERT INTO `+name+` VALUES ('one')`)
			p, err := guard.NewPolicy(guard.Tables(name), guard.Require())
			w.Want("NewPolicy", err, nil)
			db := like(t, w, nil, fence.WithPolicy(p))
			for _, written := range []string{name, `"` + name + `"`, strings.ToUpper(name[:1]) + name[1:]} {
				text := `UPDATE ` + written + ` SET v = 'two'`
				w.Want("no token: "+text, second(db.ExecContext(t.Context(), text)), guard.ErrUnguarded)
				w.Want("stale: "+text, second(db.ExecContext(w.With(drivertest.Stale), text)), guard.ErrFenced)
				var v string
				w.Want("read", w.Bare.QueryRowContext(t.Context(), `SELECT v FROM `+name).Scan(&v), nil)
				if v != "one" {
					t.Errorf("%s: the write has landed", text)
				}
			}
			w.Must(db, `UPDATE d SET v = v`)
		}
	})
}
