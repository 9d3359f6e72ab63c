package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// An INSERT is checked behind its row work, and triggers for a statement and constant
// expressions come before every check. A stale owner whose statement fails by
// them is told that he is stale, with the server's error behind it; and a
// valid owner what the server said (SPEC G6).
func TestAStaleWriteThatFailsIsFenced(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `ALTER TABLE d ADD CHECK (v <> 'bad')`)
		w.Must(w.Bare, `CREATE FUNCTION grumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.n = 13 THEN RAISE EXCEPTION 'unlucky' USING ERRCODE = 'UX001'; END IF; RETURN NEW; END $$`)
		w.Must(w.Bare, `CREATE TRIGGER grumble BEFORE INSERT ON d FOR EACH ROW EXECUTE FUNCTION grumble()`)
		w.Must(w.Bare, `CREATE TABLE b (id INTEGER)`)
		w.Must(w.Bare, `CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
		w.Must(w.Bare, `CREATE TRIGGER raise BEFORE UPDATE OR DELETE ON b EXECUTE FUNCTION raise()`)
		for _, x := range []struct {
			text, code string
			returns    bool
		}{
			{`INSERT INTO d (id) VALUES (1)`, "23505", false},
			{`INSERT INTO d (id) VALUES (1) RETURNING id`, "23505", true},
			{`INSERT INTO d (id, v) SELECT g, CASE g WHEN 60 THEN 'bad' ELSE repeat('x', 100) END FROM generate_series(50, 60) g RETURNING *`, "23514", true},
			{`INSERT INTO d (id, v) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET v = 'bad'`, "23514", false},
			{`INSERT INTO d (id, n) VALUES (5, 1/0)`, "22012", false},
			{`INSERT INTO d (id, n) VALUES (5, 13)`, "UX001", false},
			{`WITH x AS (INSERT INTO d (id) VALUES (1) RETURNING id) SELECT id FROM x`, "23505", true},
			{`UPDATE b SET id = 2`, "P0001", false},
			{`DELETE FROM b RETURNING id`, "P0001", true},
			{`UPDATE d SET n = 1/0 WHERE id = 1`, "22012", false},
			{`DELETE FROM d WHERE 1/0 = 1`, "22012", false},
			{`WITH x AS (DELETE FROM d WHERE id = 1/0 RETURNING id) SELECT id FROM x`, "22012", true},
		} {
			use := func(ctx context.Context, q interface {
				ExecContext(context.Context, string, ...any) (sql.Result, error)
				QueryContext(context.Context, string, ...any) (*sql.Rows, error)
			}) error {
				if !x.returns {
					return second(q.ExecContext(ctx, x.text))
				}
				rows, err := q.QueryContext(ctx, x.text)
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
				}
				return rows.Err()
			}
			told := func(what string, err, want error) {
				t.Helper()
				var server *pgconn.PgError
				if !errors.As(err, &server) || server.Code != x.code {
					t.Errorf("%s, %s: the server's error is lost: %v", x.text, what, err)
				}
				if want == nil && err != error(server) {
					t.Errorf("%s, %s: got %#v, want what the server said", x.text, what, err)
				} else if want != nil {
					w.Want(x.text+", "+what, err, want)
				}
				w.IsUntouched()
			}
			told("valid", use(w.With(drivertest.Current), w.Fenced), nil)
			told("stale", use(w.With(drivertest.Stale), w.Fenced), guard.ErrFenced)
			told("another grant", use(w.With(drivertest.Other, drivertest.Rival), w.Fenced), guard.ErrFenced)
			told("unregistered", use(w.With(drivertest.Unknown), w.Fenced), guard.ErrUnregistered)

			// In a transaction, which has failed: a valid owner can go back to a
			// savepoint, and a stale one cannot.
			tx := w.Begin(w.With(drivertest.Current), w.Fenced)
			w.Must(tx, `SAVEPOINT a`)
			told("valid, in a transaction", use(context.Background(), tx), nil)
			w.Must(tx, `ROLLBACK TO a`)
			w.Must(tx, `UPDATE d SET v = v`)
			w.Want("Commit", tx.Commit(), nil)
			tx = w.Begin(w.With(drivertest.Stale), w.Fenced)
			w.Must(&unguarded{tx}, `UPDATE d SET v = 'unguarded' WHERE id = 2`)
			w.Must(tx, `SAVEPOINT a`)
			told("stale, in a transaction", use(context.Background(), tx), guard.ErrFenced)
			w.Want("ROLLBACK TO", second(tx.Exec(`ROLLBACK TO a`)), guard.ErrFenced)
			w.Want("Commit", tx.Commit(), guard.ErrFenced)
			w.IsUntouched()
			// The pool's own bound is not spent by the question.
			w.Fenced.SetMaxOpenConns(1)
			tx = w.Begin(w.With(drivertest.Stale), w.Fenced)
			told("stale, the pool full", use(context.Background(), tx), guard.ErrFenced)
			w.Want("Rollback", tx.Rollback(), nil)
			w.Fenced.SetMaxOpenConns(0)
		}
		// What may be gone the next time, and what comes before the row work.
		for _, text := range []string{
			`INSERT INTO d (id, missing) VALUES (1, 1)`,
			`INSERT INTO d (id) SELECT 9 FROM pg_sleep(30)`,
			`UPDATE d SET missing = 1`,
			`UPDATE b SET missing = 1`,
		} {
			c := w.Conn(w.Fenced)
			w.Must(c, `SET statement_timeout = 50`)
			_, err := c.ExecContext(w.With(drivertest.Stale), text)
			if err == nil || errors.Is(err, guard.ErrFenced) {
				t.Errorf("%s: got error %v, want what the server says", text, err)
			}
			w.Must(c, `RESET statement_timeout`)
			w.Want("Close", c.Close(), nil)
		}
	})
}

type unguarded struct{ tx *sql.Tx }

func (e *unguarded) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	return e.tx.ExecContext(guard.Without(ctx), text, args...)
}
