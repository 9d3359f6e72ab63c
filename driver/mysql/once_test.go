package mysql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
)

// CASES D33: the fence is asked once for each statement, and not for each row.
func TestTheFenceIsAskedOncePerStatement(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `INSERT INTO d (id, v) SELECT 100 + a.x * 100 + b.x * 10 + c.x, 'many' FROM
			(SELECT 0 AS x UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) a, (SELECT 0 AS x UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) b,
			(SELECT 0 AS x UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) c`)
		// lookups returns how many rows were looked for by a key.
		lookups := func(db *sql.DB, ctx context.Context, text string) int {
			c := w.Conn(db)
			defer c.Close()
			w.Want("a first one", second(c.ExecContext(ctx, `UPDATE d SET n = n + 1 WHERE id = 1`)), nil)
			w.Must(c, `FLUSH STATUS`)
			w.Must(c, `BEGIN`)
			w.Want(text, second(c.ExecContext(ctx, text)), nil)
			var name string
			var n int
			w.Want("status", c.QueryRowContext(t.Context(), `SHOW SESSION STATUS LIKE 'Handler_read_key'`).Scan(&name, &n), nil)
			w.Must(c, `ROLLBACK`)
			return n
		}
		for _, text := range []string{`UPDATE d SET n = n + 1`, `UPDATE d SET n = n + 1 WHERE v = 'many' OR id = 1`, `DELETE FROM d WHERE v = 'many'`,
			`INSERT INTO d (id, v) SELECT id + 10000, v FROM d`} {
			bare, guarded := lookups(w.Bare, t.Context(), text), lookups(w.Fenced, w.With(drivertest.Current), text)
			if more := guarded - bare; more < 1 || more > 5 {
				t.Errorf("%s: %d lookups by key, bare %d: the fence is one", text, guarded, bare)
			}
		}
	})
}
