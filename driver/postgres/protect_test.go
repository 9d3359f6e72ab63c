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
			// To pretend.
			`SET sqlfence.passed = 'x'; DELETE FROM d`, `SET sqlfence.passed = '7.70.'; DELETE FROM d`, `SET sqlfence.passed = '.70.job-42'; DELETE FROM d`,
			`SELECT set_config('sqlfence.passed', pg_current_xact_id()::text, true); DELETE FROM d`,
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
		// What pass leaves is a claim, which the trigger checks.
		for claim, state := range map[string]string{"6.60.job-42": "SF001", "7.71.job-42": "SF001", "8.80.job-42": "SF002", "7.70.job-43": "SF002", "9999999999999999999.1.job-42": "22003"} {
			_, err := w.Bare.ExecContext(t.Context(), `BEGIN; SET LOCAL sqlfence.passed = '`+claim+`'; UPDATE d SET v = 'x'; COMMIT`)
			if guard.SQLState(err) != state {
				t.Errorf("the claim %s: got error %v, want %s", claim, err, state)
			}
			w.IsUntouched()
		}
		w.Must(w.Bare, `BEGIN; SET LOCAL sqlfence.passed = '7.70.job-42'; UPDATE d SET v = v; COMMIT`)

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

// The turnstile goes with the savepoint that it was taken behind. A claim that was kept
// from before, in the same transaction or in another, is worth what its token is.
func TestAProtectedTableChecksWhatIsClaimed(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Want("Protect", guard.Protect(t.Context(), w.Bare, sqlgen.PostgreSQL, "d"), nil)
		c := w.Conn(w.Bare)
		w.Must(c, `BEGIN`)
		w.Must(c, `SAVEPOINT a`)
		w.Must(c, `SELECT sqlfence.pass('job-42', 7, 70)`)
		var claim string
		w.Want("claim", c.QueryRowContext(t.Context(), `SELECT current_setting('sqlfence.passed')`).Scan(&claim), nil)
		w.Must(c, `ROLLBACK TO a`)
		w.Want("a takeover", guard.NewFence(w.Bare, sqlgen.PostgreSQL).Advance(t.Context(), drivertest.Unknown), nil)
		w.Must(c, `SELECT set_config('sqlfence.passed', '`+claim+`', false)`)
		_, err := c.ExecContext(t.Context(), `UPDATE d SET v = 'x'`)
		w.Want("the claim of before the takeover", nilIf(guard.SQLState(err) == "SF001"), nil)
		w.Must(c, `ROLLBACK`)
		w.Must(c, `RESET ALL`)
		w.Want("Close", c.Close(), nil)
		w.IsUntouched()
	})
}

// A trigger fires for the table that a statement names, so that no part of a table is
// protected without the whole; and Protect is true of what it finds.
func TestProtectLeavesNoWayAround(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		protect := func(table string) error { return guard.Protect(t.Context(), w.Bare, sqlgen.PostgreSQL, table) }
		refused := func(text string) {
			t.Helper()
			_, err := w.Bare.ExecContext(t.Context(), text)
			w.Want(text, nilIf(guard.SQLState(err) == "SF008"), nil)
		}
		for _, text := range []string{
			`CREATE TABLE par (id int, v text) PARTITION BY LIST (id)`, `CREATE TABLE par_1 PARTITION OF par FOR VALUES IN (1) PARTITION BY LIST (v)`,
			`CREATE TABLE par_1x PARTITION OF par_1 FOR VALUES IN ('x')`, `CREATE TABLE par_2 (id int, v text)`,
			`CREATE TABLE one (id int)`, `CREATE TABLE two (id int)`, `CREATE TABLE heir () INHERITS (one, two)`,
			`CREATE FOREIGN DATA WRAPPER nowhere`, `CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere`,
			`CREATE FOREIGN TABLE far (id int) INHERITS (one) SERVER nowhere`, `INSERT INTO par VALUES (1, 'x')`,
		} {
			w.Must(w.Bare, text)
		}
		for _, table := range []string{"par_1", "par_1x", "heir", "one"} {
			w.Want(table+", written through another", protect(table), guard.ErrInvalidInput)
		}
		w.Must(w.Bare, `UPDATE par_1x SET v = v`) // nothing of it stays
		w.Want("par", protect("par"), nil)
		w.Want("a part of what is protected", protect("par_1"), nil)
		refused(`UPDATE par_1x SET v = v`)
		w.Must(w.Bare, `ALTER TABLE par ATTACH PARTITION par_2 FOR VALUES IN (2)`)
		w.Want("after ATTACH", protect("par"), nil)
		refused(`INSERT INTO par_2 VALUES (2, 'x')`)
		w.Must(w.Bare, `ALTER TABLE heir NO INHERIT two`)
		w.Want("one", protect("one"), nil)
		refused(`DELETE FROM heir`)

		w.Want("d", protect("d"), nil)
		for _, text := range []string{
			`ALTER TABLE d DISABLE TRIGGER USER`, `ALTER TABLE d ENABLE REPLICA TRIGGER sqlfence_protected`, `DROP TRIGGER sqlfence_protected ON d`,
			`DROP TRIGGER sqlfence_protected ON d; CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			 CREATE TRIGGER sqlfence_protected AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON d EXECUTE FUNCTION other()`,
			`DROP TRIGGER sqlfence_protected ON d; CREATE TRIGGER sqlfence_protected AFTER INSERT ON d EXECUTE FUNCTION sqlfence.protected()`,
			`DROP TRIGGER sqlfence_protected ON d; CREATE TRIGGER sqlfence_protected AFTER INSERT OR UPDATE OF v OR DELETE OR TRUNCATE ON d EXECUTE FUNCTION sqlfence.protected()`,
			`DROP TRIGGER sqlfence_protected ON d; CREATE TRIGGER sqlfence_protected AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON d WHEN (false) EXECUTE FUNCTION sqlfence.protected()`,
		} {
			w.Must(w.Bare, text)
			w.Must(w.Bare, `UPDATE d SET n = n`) // the control
			w.Want("Protect after "+text, protect("d"), nil)
			refused(`UPDATE d SET n = n`)
		}
	})
}

// A session that plays a replica runs the triggers that are always on alone.
func TestProtectedFromAReplicasSession(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `CREATE TABLE par (id int PRIMARY KEY, v text) PARTITION BY LIST (id)`)
		w.Must(w.Bare, `CREATE TABLE par_1 PARTITION OF par FOR VALUES IN (1)`)
		for _, table := range []string{"d", "par"} {
			w.Want("Protect", guard.Protect(t.Context(), w.Bare, sqlgen.PostgreSQL, table), nil)
		}
		bare, fenced := w.Conn(w.Bare), w.Conn(w.Fenced)
		for _, text := range []string{
			`UPDATE d SET v = 'x'`, `INSERT INTO d (id, v) VALUES (9, 'x')`, `DELETE FROM d`, `TRUNCATE d`,
			`INSERT INTO par VALUES (1, 'x')`, `INSERT INTO par_1 VALUES (1, 'x')`,
		} {
			w.Must(bare, `SET session_replication_role = replica`)
			w.Want(text, nilIf(guard.SQLState(second(bare.ExecContext(t.Context(), text))) == "SF008"), nil)
		}
		w.IsUntouched()
		w.Must(fenced, `SET session_replication_role = replica`)
		w.Want("a valid write", second(fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)), nil)
		stale := drivertest.Current
		stale.Epoch--
		w.Want("a stale write", second(fenced.ExecContext(w.With(stale), `UPDATE d SET v = 'x'`)), guard.ErrFenced)
		w.IsUntouched()
		w.Want("Unprotect", guard.Unprotect(t.Context(), w.Bare, sqlgen.PostgreSQL, "d"), nil)
		w.Want("the control", second(bare.ExecContext(t.Context(), `UPDATE d SET v = 'x'`)), nil)
	})
}

// To a snapshot of before, nothing is protected: a valid write under it is told to run
// again, and not that it has not passed.
func TestProtectedSinceTheSnapshot(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		ctx := w.With(drivertest.Current)
		tx, err := w.Fenced.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		w.Want("BEGIN", err, nil)
		var n int
		w.Want("a snapshot", tx.QueryRowContext(ctx, `SELECT 1`).Scan(&n), nil)
		w.Want("Protect", guard.Protect(t.Context(), w.Bare, sqlgen.PostgreSQL, "d"), nil)
		_, err = tx.ExecContext(ctx, `UPDATE d SET v = 'x'`)
		w.Want("a valid write under the older snapshot", nilIf(guard.SQLState(err) == "40001"), nil)
		w.Want("Rollback", tx.Rollback(), nil)
		w.Want("again", second(w.Fenced.ExecContext(ctx, `UPDATE d SET v = v`)), nil)
	})
}

// A dump of a table alone brings its trigger into a database in which Protect was never
// called: no write can pass there, and whoever tries again is told what is missing.
func TestAProtectedTableFromAnotherDatabase(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `CREATE TRIGGER sqlfence_protected AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON d FOR EACH STATEMENT EXECUTE FUNCTION sqlfence.protected()`)
		ctx := w.With(drivertest.Current)
		_, err := w.Fenced.ExecContext(ctx, `UPDATE d SET v = 'x'`)
		w.Want("a valid write", err, guard.ErrSetup)
		if err == nil || !strings.Contains(err.Error(), "call guard.Protect") || !strings.Contains(err.Error(), "public.d") {
			t.Errorf("error %v, want that it names the table and the remedy", err)
		}
		_, err = w.Bare.ExecContext(t.Context(), `DELETE FROM d`)
		w.Want("a write without a token", nilIf(guard.SQLState(err) == "SF005"), nil)
		w.IsUntouched()
		w.Want("Protect", guard.Protect(t.Context(), w.Bare, sqlgen.PostgreSQL, "d"), nil)
		w.Want("a valid write", second(w.Fenced.ExecContext(ctx, `UPDATE d SET v = v`)), nil)
	})
}
