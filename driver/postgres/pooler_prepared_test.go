package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
)

// CASES D20: statements prepared on the server, pgx's default, behind a transaction
// pooler. One that does not know of them (PgBouncer before 1.21) gives the next
// transaction a server without the statement, and the bare driver fails (26000,
// 42P05). Behind the fence exactly the same fails, what works bare works, no stale
// write lands, and no transaction and no lock is left.
func TestPreparedStatementsBehindATransactionPooler(t *testing.T) {
	w := drivertest.NewWorld(t, everyServer(t)[0])
	w.Must(w.Bare, `CREATE TABLE empty ()`)
	dsn := config(t, w.Bare).ConnString()
	texts := []struct {
		text string
		args []any
	}{
		{`UPDATE d SET v = $1 WHERE id = $2`, []any{"one", 1}}, {`UPDATE d SET v = 'one' WHERE id = 1`, nil},
		{`INSERT INTO d (id) VALUES ($1) ON CONFLICT DO NOTHING`, []any{1}}, {`TRUNCATE empty`, nil}, {`SELECT id FROM d WHERE id = $1`, []any{1}},
	}

	// run executes each text on a server of its own, and again on the next one while a
	// transaction of another client keeps the first, and so on, and notes how it ends.
	run := func(ctx context.Context, behind func(*pgx.ConnConfig) *sql.DB) (notes []string) {
		c, err := pgx.ParseConfig(testserver.PgBouncer(t, dsn))
		w.Want("ParseConfig", err, nil)
		db := behind(c)
		defer db.Close()
		simple := c.Copy()
		simple.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		others := sql.OpenDB(stdlib.GetConnector(*simple))
		defer others.Close()

		clients := []*sql.Conn{w.Conn(db), w.Conn(db)}
		var kept []*sql.Tx
		for round := range 6 {
			for _, x := range texts {
				_, err := clients[round%2].ExecContext(ctx, x.text, x.args...)
				state := guard.SQLState(err)
				switch {
				case errors.Is(err, guard.ErrFenced):
					state = "fenced"
				case err != nil && state == "":
					state = err.Error()
				}
				notes = append(notes, strings.TrimSuffix(fmt.Sprintf("%d %s: %s", round, x.text, state), ": "))
			}
			if round == 3 { // from now on, servers that know other clients' statements
				for _, tx := range kept {
					w.Want("Rollback", tx.Rollback(), nil)
				}
			}
			if round < 3 {
				tx := w.Begin(t.Context(), others)
				w.Must(tx, `SELECT 1`)
				kept = append(kept, tx)
			}
		}
		for _, c := range clients {
			w.Want("Close", c.Close(), nil)
		}
		var locks, open int
		w.Want("locks", w.Bare.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&locks), nil)
		w.Want("transactions", w.Bare.QueryRow(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state LIKE 'idle in%'`).Scan(&open), nil)
		if locks != 0 || open != 0 {
			t.Errorf("%d advisory locks and %d open transactions are left", locks, open)
		}
		w.IsUntouched()
		return notes
	}
	bare := run(t.Context(), func(c *pgx.ConnConfig) *sql.DB { return sql.OpenDB(stdlib.GetConnector(*c)) })
	behindTheFence := func(c *pgx.ConnConfig) *sql.DB { return sql.OpenDB(postgres.WrapConnector(stdlib.GetConnector(*c))) }
	t.Logf("bare:\n%s", strings.Join(bare, "\n"))
	for name, ctx := range map[string]context.Context{"no token": t.Context(), "a token": w.With(drivertest.Current)} {
		if got := run(ctx, behindTheFence); !slices.Equal(got, bare) {
			t.Errorf("%s:\n%s\nbare:\n%s", name, strings.Join(got, "\n"), strings.Join(bare, "\n"))
		}
	}
	for i, note := range run(w.With(drivertest.Stale), behindTheFence) {
		if reads := strings.Contains(note, "SELECT"); note != bare[i] || !reads && !strings.Contains(note, ": ") {
			if !strings.HasSuffix(note, ": fenced") || reads {
				t.Errorf("stale: %s, bare: %s", note, bare[i])
			}
		}
	}
}
