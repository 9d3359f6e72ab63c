package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// A protected table refuses every client that has not passed the fence, and takes
// every form of write that has.
func TestProtect(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, text := range []string{
			`CREATE TABLE parent (id int PRIMARY KEY)`,
			`CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE ON UPDATE SET NULL)`,
			`CREATE TABLE parted (id int, v text) PARTITION BY LIST (id)`,
			`CREATE TABLE part1 PARTITION OF parted FOR VALUES IN (1)`,
			`CREATE TABLE base (id int)`, `CREATE TABLE heir () INHERITS (base)`,
			`CREATE VIEW dv AS SELECT * FROM d`,
			`CREATE FUNCTION writes_d() RETURNS int LANGUAGE sql AS 'UPDATE d SET v = v RETURNING 1'`,
			`INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1); INSERT INTO parted VALUES (1, 'one'); INSERT INTO heir VALUES (1)`,
		} {
			w.Must(w.Bare, text)
		}
		for _, table := range []string{"d", "child", "public.parted", "base", "d"} {
			w.Want("Protect", guard.Protect(t.Context(), w.Bare, sqlgen.PostgreSQL, table), nil)
		}
		refused := func(what string, err error) {
			t.Helper()
			if guard.SQLState(err) != "SF008" {
				t.Errorf("%s: got error %v, want SF008", what, err)
			}
			w.IsUntouched()
		}
		texts := []string{
			`UPDATE d SET v = 'x'`, `DELETE FROM d WHERE false`, `INSERT INTO d (id) VALUES (9)`, `TRUNCATE d`, `UPDATE dv SET v = 'x'`,
			`INSERT INTO d (id, v) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET v = excluded.v`, `WITH x AS (DELETE FROM d RETURNING 1) SELECT * FROM x`,
			`SELECT writes_d()`, `DO $$ BEGIN DELETE FROM d; END $$`,
			`DELETE FROM parent`, `UPDATE parent SET id = 2`,
			`UPDATE parted SET v = 'x'`, `UPDATE part1 SET v = 'x'`, `INSERT INTO part1 VALUES (1, 'x')`, `DELETE FROM heir`, `DELETE FROM base`,
			// To pretend: not without the secret.
			`SET sqlfence.passed = 'x'; DELETE FROM d`, `SELECT set_config('sqlfence.passed', pg_current_xact_id()::text, true); DELETE FROM d`,
			`BEGIN; SELECT set_config('sqlfence.passed', sqlfence.proof(NULL), true); DELETE FROM d; COMMIT`,
			`BEGIN; SELECT set_config('sqlfence.passed', sqlfence.proof(''), true); DELETE FROM d; COMMIT`,
		}
		for _, text := range texts {
			c := w.Conn(w.Bare)
			_, err := c.ExecContext(t.Context(), text)
			refused(text, err)
			_, _ = c.ExecContext(context.Background(), `ROLLBACK`)
			w.Must(c, `RESET ALL`)
			w.Want("Close", c.Close(), nil)
		}
		c := w.Conn(w.Bare)
		w.Want("Raw", c.Raw(func(dc any) error {
			_, err := dc.(*stdlib.Conn).Conn().PgConn().CopyFrom(t.Context(), strings.NewReader("9\tx\t1\n"), `COPY d FROM STDIN`)
			refused("COPY", err)
			return nil
		}), nil)
		w.Want("a refused write behind the fence, without a token", nilIf(guard.SQLState(second(w.Fenced.Exec(`UPDATE d SET v = 'x'`))) == "SF008"), nil)
		w.IsUntouched()

		// With a token everything passes as ever; what the driver refuses as text does not.
		for _, text := range texts[:7] {
			plan := sqlgen.Analyze(sqlgen.PostgreSQL, text)
			_, err := w.Fenced.ExecContext(w.With(drivertest.Current), text)
			if plan.Strategy == sqlgen.Refuse {
				w.Want(text, err, guard.ErrUnsupported)
			} else {
				w.Want(text, err, nil)
			}
			_, err = w.Fenced.ExecContext(w.With(drivertest.Stale), text)
			if plan.Strategy != sqlgen.Refuse {
				w.Want(text+", stale", err, guard.ErrFenced)
			}
			w.Must(w.Bare, `BEGIN; SELECT sqlfence.pass('job-42', 7, 70); DELETE FROM d; INSERT INTO d (id, v, n) VALUES (1, 'one', 10), (2, 'two', 20), (3, 'three', 30); COMMIT`)
		}
		// The pass ends with its savepoint and with its transaction.
		tx := w.Begin(t.Context(), w.Bare)
		w.Must(tx, `SAVEPOINT a`)
		w.Must(tx, `SELECT sqlfence.pass('job-42', 7, 70)`)
		w.Must(tx, `SELECT writes_d()`)
		w.Must(tx, `ROLLBACK TO a`)
		refused("after ROLLBACK TO", second(tx.Exec(`UPDATE d SET v = 'x'`)))
		w.Want("Rollback", tx.Rollback(), nil)
		// What one transaction knows is of no use to the next.
		c = w.Conn(w.Bare)
		w.Must(c, `BEGIN`)
		w.Must(c, `SELECT sqlfence.pass('job-42', 7, 70)`)
		w.Must(c, `SELECT set_config('sqlfence.passed', current_setting('sqlfence.passed'), false)`)
		w.Must(c, `COMMIT`)
		refused("a proof of before", second(c.ExecContext(t.Context(), `UPDATE d SET v = 'x'`)))
		w.Must(c, `RESET ALL`)
		w.Want("Close", c.Close(), nil)

		for _, table := range []string{"d", "d", "parted"} {
			w.Want("Unprotect", guard.Unprotect(t.Context(), w.Bare, sqlgen.PostgreSQL, table), nil)
		}
		w.Must(w.Bare, `UPDATE d SET v = v`)
		w.Must(w.Bare, `UPDATE part1 SET v = v`)
		err := guard.Protect(t.Context(), w.Bare, sqlgen.PostgreSQL, "dv")
		w.Want("a view", err, guard.ErrInvalidInput)
	})
}

func nilIf(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("it is not so")
}

func TestProtectIsOfPostgreSQL(t *testing.T) {
	for _, engine := range []sqlgen.Engine{sqlgen.SQLite, sqlgen.MySQL} {
		if err := guard.Protect(t.Context(), (*sql.DB)(nil), engine, "d"); !errors.Is(err, guard.ErrUnsupported) {
			t.Errorf("%s: got error %v, want ErrUnsupported", engine, err)
		}
	}
}

// BenchmarkProtected is the price of the protection: an update of one row under a
// token, of a table that is not protected and of one that is.
func BenchmarkProtected(b *testing.B) {
	server := testserver.PostgreSQL(b)[0]
	for _, protected := range []bool{false, true} {
		name := map[bool]string{false: "open", true: "protected"}[protected]
		b.Run(name, func(b *testing.B) {
			conn, err := pgx.Connect(b.Context(), server.Database(b))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close(context.Background())
			for _, text := range []string{sqlgen.Schema(sqlgen.PostgreSQL), `CREATE TABLE d (id int PRIMARY KEY, v text)`, `INSERT INTO d VALUES (1, 'one')`,
				`SELECT sqlfence.advance('r', 1, 1)`} {
				if _, err := conn.Exec(b.Context(), text); err != nil {
					b.Fatal(err)
				}
			}
			if protected {
				if _, err := conn.Exec(b.Context(), `SELECT sqlfence.protect('d')`); err != nil {
					b.Fatal(err)
				}
			}
			text, err := sqlgen.Analyze(sqlgen.PostgreSQL, `UPDATE d SET v = $1 WHERE id = $2`).Guarded(1)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := conn.Exec(b.Context(), text, "x", 1, "r", 1, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
