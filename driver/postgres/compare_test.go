package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
)

// comparison adds what only pgx takes.
func comparison() drivertest.Comparison {
	c := drivertest.PostgreSQLComparison
	c.Statements = slices.Concat(c.Statements, []drivertest.Statement{
		{Text: `INSERT INTO wide (id, s, num, ts, j, b, u, f, t, c, d) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO UPDATE SET s = excluded.s RETURNING *`,
			Args: []any{1, []string{"a", "b"}, "12.5", time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), map[string]int{"a": 1}, []byte("\x00b"),
				"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", 1.5, true, "varchar", "2026-02-03"}},
		{Text: `UPDATE d SET v = @v WHERE id = @id RETURNING v`, Args: []any{pgx.NamedArgs{"v": "n", "id": 1}}},
	})
	return c
}

// CASES D16, D17, SPEC G5: whatever a program sees is what it sees without the
// fence, in each of pgx's execution modes.
func TestComparedWithTheBareDriver(t *testing.T) {
	for i, e := range everyServer(t) {
		c := comparison()
		if i > 0 {
			c.Brief, c.Roads = true, []string{"DB.Exec", "Stmt.Query, twice", "Tx.Query"}
		}
		drivertest.Compare(t, drivertest.NewWorld(t, e), c)
	}
}

func TestComparedInEveryExecMode(t *testing.T) {
	for i, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			// Each mode on one of the servers.
			servers := everyServer(t)
			w := drivertest.NewWorld(t, servers[i%len(servers)])
			change := func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = mode }
			bare := bareLike(t, w, change)
			w.Fenced, w.Bare = like(t, w, change), bare
			c := comparison()
			c.Roads = []string{"DB.Query", "Stmt.Exec"}
			c.Brief = true
			drivertest.Compare(t, w, c)
		})
	}
}
