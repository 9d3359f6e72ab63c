package mysql_test

import (
	"database/sql"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// CASES D19, SPEC G7: a token is no part of any text, so that statements that were
// prepared once serve all tokens.
func TestTokensPrepareNothingAnew(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		c, bare := w.Conn(w.Fenced), w.Conn(w.Bare)
		for _, conn := range []*sql.Conn{c, bare} {
			// MySQL writes a log of its own, and to the disk with each commit.
			w.Must(conn, `SET SESSION sql_log_bin = 0`)
		}
		fence := guard.NewFence(bare, sqlgen.MySQL)
		prepares := func() (n int) {
			var name string
			w.Want("status", c.QueryRowContext(t.Context(), `SHOW SESSION STATUS LIKE 'Com_stmt_prepare'`).Scan(&name, &n), nil)
			return n
		}
		var run []func(token guard.Token) error
		for _, text := range []string{`UPDATE d SET n = n + ? WHERE id = 1`, `UPDATE d SET n = n + ?`, `REPLACE INTO d (id, n) VALUES (7, ?)`,
			`INSERT INTO d (id, n) VALUES (7, ?) ON DUPLICATE KEY UPDATE n = n + 1`, `DELETE FROM d WHERE id = 7 AND n > ?`} {
			s, err := c.PrepareContext(t.Context(), text)
			w.Want("Prepare", err, nil)
			defer s.Close()
			run = append(run, func(token guard.Token) error { return second(s.ExecContext(w.With(token), 1)) })
		}
		token, before := drivertest.Current, 0
		for i := range 1000 {
			token.Epoch, token.Grant = drivertest.Current.Epoch+int64(i), drivertest.Current.Grant+int64(i)
			w.Want("Advance", fence.Advance(t.Context(), token), nil)
			// The first hundred in autocommit: each commit goes to the disk.
			if i >= 100 {
				w.Must(c, `BEGIN`)
			}
			for _, exec := range run {
				w.Want("exec", exec(token), nil)
			}
			if i >= 100 {
				w.Must(c, `COMMIT`)
			}
			if i == 0 {
				before = prepares()
			}
		}
		if n := prepares() - before; n != 0 {
			t.Errorf("999 more tokens prepared %d statements, want 0", n)
		}
	})
}
