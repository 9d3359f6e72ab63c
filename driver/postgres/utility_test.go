package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// utilitySetup makes the objects of the statements below anew.
const utilitySetup = `
DROP SCHEMA IF EXISTS u CASCADE; CREATE SCHEMA u;
DROP MATERIALIZED VIEW IF EXISTS mv; DROP TABLE IF EXISTS made, child; DROP FUNCTION IF EXISTS u_add(int); DROP INDEX IF EXISTS d_v; DROP PROCEDURE IF EXISTS p();
ALTER TABLE d DROP COLUMN IF EXISTS added;
DELETE FROM d; INSERT INTO d (id, v, n) VALUES (1, 'one', 10), (2, 'two', 20), (3, 'three', 30);
CREATE TABLE child (id int REFERENCES d); INSERT INTO child VALUES (1);
CREATE MATERIALIZED VIEW mv AS SELECT count(*) AS n FROM d; INSERT INTO d (id, v) VALUES (4, 'four');
CREATE PROCEDURE p() LANGUAGE plpgsql AS 'BEGIN UPDATE d SET v = upper(v); END';
COMMENT ON TABLE d IS NULL; REVOKE SELECT ON d FROM PUBLIC`

// utilityState is everything that the statements below can change.
const utilityState = `SELECT concat_ws(' ; ',
	(SELECT string_agg(d::text, ' ' ORDER BY id) FROM d), CASE WHEN to_regclass('child') IS NOT NULL THEN query_to_xml('SELECT * FROM child', false, true, '')::text END,
	(SELECT string_agg(rulename, ' ') FROM pg_rewrite WHERE rulename <> '_RETURN' AND ev_class > 16384), (SELECT n FROM mv),
	(SELECT string_agg(relname || relkind::text || relpersistence::text, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'u'::regnamespace)),
	(SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'd'::regclass AND attnum > 0 AND NOT attisdropped),
	(SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = 'public'::regnamespace),
	obj_description('d'::regclass), (SELECT relacl::text FROM pg_class WHERE oid = 'd'::regclass))`

// utilities are the writes that take no WITH, and what PostgreSQL lets run
// inside of a transaction. prepare is executed on the same connection before; @ is a
// name that is new each time.
var utilities = []struct{ prepare, text string }{
	{"", `TRUNCATE child`},
	{"", `TRUNCATE d CASCADE`},
	{"", `TRUNCATE d, child RESTART IDENTITY`},
	{"", `SELECT id INTO made FROM d`},
	{"", `CREATE TABLE made AS SELECT id FROM d`},
	{"", `CREATE TABLE made AS WITH x AS (SELECT 1) SELECT * FROM x`},
	{"", `REFRESH MATERIALIZED VIEW mv`},
	{"", `EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) UPDATE d SET v = 'explained' WHERE id = 1`},
	{"", `EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) INSERT INTO d (id) VALUES (9)`},
	{"", `EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) CREATE TABLE made AS SELECT 1`},
	{"PREPARE @ AS DELETE FROM d WHERE id = 4", `EXECUTE @`},
	{"PREPARE @ (int) AS UPDATE d SET n = $1 WHERE id = 1 RETURNING n", `EXECUTE @(5)`},
	{"PREPARE @ AS DELETE FROM d WHERE id = 4", `EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) EXECUTE @`},
	{"PREPARE @ AS SELECT id FROM d", `CREATE TABLE made AS EXECUTE @`},
	{"", `COPY d (id, v) FROM PROGRAM 'printf "9\tcopied\n"'`},
	{"", `COPY (DELETE FROM d WHERE id = 4 RETURNING id) TO STDOUT`},
	{"", `COPY (DELETE FROM d WHERE id = 4 RETURNING id) TO PROGRAM 'cat > /dev/null'`},
	{"", `CREATE TABLE u.made (id int)`},
	{"", `CREATE INDEX d_v ON d (v)`},
	{"", `CREATE FUNCTION u_add(a int) RETURNS int LANGUAGE sql AS 'DELETE FROM d; SELECT a'`},
	{"", `CREATE RULE r AS ON UPDATE TO child DO ALSO (DELETE FROM d WHERE false; DELETE FROM child WHERE false)`},
	{"", `ALTER TABLE d ADD added int DEFAULT 5`},
	{"", `DROP TABLE child`},
	{"", `COMMENT ON TABLE d IS 'said'`},
	{"", `GRANT SELECT ON d TO PUBLIC`},
}

// runner is a *sql.DB, *sql.Conn or *sql.Tx.
type runner interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// rowsOf executes the text and returns what a program sees of it.
func rowsOf(ctx context.Context, db runner, text string, query bool) (string, error) {
	if !query {
		res, err := db.ExecContext(ctx, text)
		if err != nil {
			return "", err
		}
		n, err := res.RowsAffected()
		return strings.Repeat("|", int(n)), err
	}
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var seen []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return "", err
		}
		seen = append(seen, v)
	}
	return strings.Join(seen, "\n"), rows.Err()
}

func stateOf(t *testing.T, db *sql.DB) (state string) {
	t.Helper()
	if err := db.QueryRow(utilityState).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

// SPEC G1, G5, G8 and CASES D23 for what takes no WITH: it is executed behind a
// check, in the transaction of the check. The bare driver is the control: what
// is refused under a stale token would have landed.
func TestWritesThatTakeNoWith(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		valid, stale := w.With(drivertest.Current), w.With(drivertest.Stale)
		names := 0
		fresh := func(texts ...*string) {
			names++
			for _, text := range texts {
				*text = strings.ReplaceAll(*text, "@", fmt.Sprintf("p%d", names))
			}
		}
		run := func(db *sql.DB, ctx context.Context, prepare, text string, query bool) (string, error) {
			fresh(&prepare, &text)
			c := w.Conn(db)
			defer c.Close()
			w.Must(w.Bare, utilitySetup)
			if prepare != "" {
				w.Must(c, prepare)
			}
			return rowsOf(ctx, c, text, query)
		}
		inTx := func(ctx context.Context, prepare, text string, query bool) (seen string, err, committed error) {
			fresh(&prepare, &text)
			w.Must(w.Bare, utilitySetup)
			tx := w.Begin(ctx, w.Fenced)
			if prepare != "" {
				if _, err := tx.ExecContext(ctx, prepare); err != nil { // passes: it only plans
					t.Fatalf("%s: %v", prepare, err)
				}
			}
			seen, err = rowsOf(t.Context(), tx, text, query) // the transaction's token
			return seen, err, tx.Commit()
		}
		w.Must(w.Bare, utilitySetup)
		untouched := stateOf(t, w.Bare)
		for _, u := range utilities {
			for _, query := range []bool{false, true} {
				if verb, _, _ := strings.Cut(u.text, " "); query && !strings.Contains("EXPLAIN EXECUTE COPY TRUNCATE", verb) {
					continue // nobody asks a definition for rows
				}
				what := map[bool]string{false: "Exec ", true: "Query "}[query] + u.text
				bare, err := run(w.Bare, t.Context(), u.prepare, u.text, query)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				want := stateOf(t, w.Bare)
				if want == untouched {
					t.Errorf("%s changes nothing: it tests nothing", what)
				}
				seen, err := run(w.Fenced, valid, u.prepare, u.text, query)
				w.Want(what, err, nil)
				if got := stateOf(t, w.Bare); seen != bare || got != want {
					t.Errorf("%s gave %q and left\n%s\nthe bare driver gave %q and left\n%s", what, seen, got, bare, want)
				}
				_, err = run(w.Fenced, stale, u.prepare, u.text, query)
				w.Want(what+", stale", err, guard.ErrFenced)
				if got := stateOf(t, w.Bare); got != untouched {
					t.Errorf("%s under a stale token left\n%s\nuntouched is\n%s", what, got, untouched)
				}
				seen, err, committed := inTx(valid, u.prepare, u.text, query)
				w.Want(what+", in a transaction", errors.Join(err, committed), nil)
				if got := stateOf(t, w.Bare); seen != bare || got != want {
					t.Errorf("%s in a transaction gave %q and left\n%s\nthe bare driver gave %q and left\n%s", what, seen, got, bare, want)
				}
				_, err, committed = inTx(stale, u.prepare, u.text, query)
				w.Want(what+", stale, in a transaction", err, guard.ErrFenced)
				w.Want(what+", stale, its commit", committed, guard.ErrFenced)
				if got := stateOf(t, w.Bare); got != untouched {
					t.Errorf("%s under a stale token in a transaction left\n%s", what, got)
				}
			}
		}
	})
}

// COPY to a file is the one that leaves something outside of the transaction: a
// stale owner's leaves nothing there either.
func TestCopyToAFile(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		var folder string
		if err := w.Bare.QueryRow(`SHOW data_directory`).Scan(&folder); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, "sqlfence_copied")
		exists := func() (found bool) {
			if err := w.Bare.QueryRow(`SELECT (pg_stat_file($1, true)).size IS NOT NULL`, file).Scan(&found); err != nil {
				t.Fatal(err)
			}
			return found
		}
		text := `COPY d TO '` + file + `'`
		w.Want("stale", second(w.Fenced.ExecContext(w.With(drivertest.Stale), text)), guard.ErrFenced)
		if exists() {
			t.Error("the stale owner's file is there")
		}
		w.Want("valid", second(w.Fenced.ExecContext(w.With(drivertest.Current), text)), nil)
		if !exists() {
			t.Error("the valid owner's file is not there")
		}
		w.Must(w.Bare, `COPY (SELECT 1 WHERE false) TO PROGRAM 'rm `+file+`'`)
	})
}

// CALL and DO may commit, and what they did before would then be out of the
// check's hands: they run inside of the program's own transaction only, where
// PostgreSQL refuses COMMIT (DESIGN §3).
func TestProceduresRunInTransactionsOnly(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `CREATE PROCEDURE commits(v text) LANGUAGE plpgsql AS 'BEGIN UPDATE d SET v = $1 WHERE id = 1; COMMIT; PERFORM pg_advisory_xact_lock(4, 2); UPDATE d SET v = $1 WHERE id = 2; END'`)
		w.Must(w.Bare, `CREATE PROCEDURE writes(INOUT n int) LANGUAGE plpgsql AS 'BEGIN UPDATE d SET n = 1 WHERE id = 1; n := n + 1; END'`)
		valid, stale := w.With(drivertest.Current), w.With(drivertest.Stale)
		for _, text := range []string{`CALL commits('x')`, `CALL writes(1)`, `DO $$ BEGIN UPDATE d SET v = 'x'; END $$`, `DO $$ BEGIN UPDATE d SET v = 'x'; COMMIT; END $$`} {
			for _, query := range []bool{false, true} {
				for name, ctx := range map[string]context.Context{"valid": valid, "stale": stale} {
					var u *guard.UnsupportedError
					if _, err := rowsOf(ctx, w.Fenced, text, query); !errors.As(err, &u) || !strings.Contains(u.Advice, "transaction") {
						t.Errorf("%s, %s: got error %v, want an UnsupportedError that advises a transaction", text, name, err)
					}
					w.IsUntouched()
				}
				commits := strings.Contains(strings.ToLower(text), "commit")
				tx := w.Begin(valid, w.Fenced)
				_, err := rowsOf(t.Context(), tx, text, query)
				if commits {
					var p *pgconn.PgError
					if !errors.As(err, &p) || p.Code != "2D000" {
						t.Errorf("%s in a transaction: got error %v, want 2D000", text, err)
					}
					w.Want("Rollback", tx.Rollback(), nil)
					w.IsUntouched()
				} else {
					w.Want(text+" in a transaction", errors.Join(err, tx.Commit()), nil)
					if w.Table() == drivertest.Untouched {
						t.Errorf("%s in a transaction wrote nothing", text)
					}
					w.Reset()
				}
				tx = w.Begin(stale, w.Fenced)
				_, err = rowsOf(t.Context(), tx, text, query)
				w.Want(text+", stale, in a transaction", err, guard.ErrFenced)
				w.Want("its commit", tx.Commit(), guard.ErrFenced)
				w.IsUntouched()
				// A transaction begun by text is one too.
				c := w.Conn(w.Fenced)
				w.Must(c, `BEGIN`)
				_, err = rowsOf(stale, c, text, query)
				w.Want(text+", stale, behind BEGIN", err, guard.ErrFenced)
				w.Must(c, `ROLLBACK`)
				_, err = rowsOf(valid, c, text, query)
				w.Want(text+" behind ROLLBACK", err, guard.ErrUnsupported)
				w.Want("Close", c.Close(), nil)
				w.IsUntouched()
			}
		}
		// The control: outside of a transaction, after a mere check, the
		// procedure that commits writes on after the takeover.
		locker := w.Begin(t.Context(), w.Bare)
		if _, err := locker.Exec(`SELECT pg_advisory_xact_lock(4, 2)`); err != nil {
			t.Fatal(err)
		}
		fence := guard.NewFence(w.Bare, sqlgen.PostgreSQL)
		w.Want("Check", fence.Check(t.Context(), drivertest.Current), nil)
		done := make(chan error)
		go func() {
			_, err := w.Fenced.ExecContext(guard.Without(context.Background()), `CALL commits('stale')`)
			done <- err
		}()
		waiting(t, w.Bare)
		w.Want("Advance", fence.Advance(t.Context(), drivertest.Unknown), nil)
		w.Want("Rollback", locker.Rollback(), nil)
		w.Want("CALL under Without", <-done, nil)
		if got := w.Table(); !strings.Contains(got, "2 stale") {
			t.Errorf("the unguarded control did not land: %s", got)
		}
	})
}

// A takeover waits for the transaction in which something was checked first;
// what is executed after a ROLLBACK TO that dropped the check is checked again.
func TestCheckedFirstHoldsTheFenceUntilTheEnd(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		advance := func(to guard.Token) chan error {
			moved := make(chan error)
			go func() { moved <- guard.NewFence(w.Bare, sqlgen.PostgreSQL).Advance(context.Background(), to) }()
			return moved
		}
		valid := w.With(drivertest.Current)
		tx := w.Begin(valid, w.Fenced)
		w.Must(tx, `CREATE TABLE made (id int)`)
		moved := advance(guard.Token{Resource: drivertest.Current.Resource, Epoch: 8, Grant: 80})
		waiting(t, w.Bare)
		select {
		case err := <-moved:
			t.Fatalf("the mark moved while a checked transaction was open: %v", err)
		default:
		}
		w.Want("Commit", tx.Commit(), nil)
		w.Want("Advance", <-moved, nil)

		ctx := w.With(guard.Token{Resource: drivertest.Current.Resource, Epoch: 8, Grant: 80})
		tx = w.Begin(ctx, w.Fenced)
		w.Must(tx, `SAVEPOINT a`)
		w.Must(tx, `TRUNCATE made`)
		w.Must(tx, `ROLLBACK TO a`)
		w.Want("Advance", <-advance(guard.Token{Resource: drivertest.Current.Resource, Epoch: 9, Grant: 90}), nil)
		for _, text := range []string{`TRUNCATE d`} {
			w.Want(text+" behind a ROLLBACK TO", second(tx.Exec(text)), guard.ErrFenced)
		}
		w.Want("Commit", tx.Commit(), guard.ErrFenced)
		w.IsUntouched()
	})
}

// What PostgreSQL does not run inside of a transaction is refused with an
// advice, whether the text tells or only the server.
func TestStatementsThatRunAloneAreRefused(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `CREATE INDEX i ON d (v); CREATE TABLE part (k int) PARTITION BY RANGE (k); CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (9); CREATE INDEX part_k ON part (k)`)
		texts := []string{`VACUUM d`, `CREATE INDEX CONCURRENTLY j ON d (n)`, `DROP INDEX CONCURRENTLY i`, `REINDEX TABLE CONCURRENTLY d`,
			`CREATE DATABASE sqlfence_never`, `ALTER SYSTEM SET work_mem = '5MB'`, `CLUSTER`, `COPY d FROM STDIN`, `COPY d FROM STDOUT`}
		var version int
		if err := w.Bare.QueryRow(`SELECT current_setting('server_version_num')::int / 10000`).Scan(&version); err != nil {
			t.Fatal(err)
		}
		if version >= 14 {
			texts = append(texts, `ALTER TABLE part DETACH PARTITION part1 CONCURRENTLY`, `REINDEX TABLE part`, `REINDEX INDEX part_k`)
		}
		for _, text := range texts {
			for _, query := range []bool{false, true} {
				var u *guard.UnsupportedError
				if _, err := rowsOf(w.With(drivertest.Current), w.Fenced, text, query); !errors.As(err, &u) || u.Advice == "" || u.Kind == "" {
					t.Errorf("%s: got error %v, want an UnsupportedError", text, err)
				}
				_, err := rowsOf(w.With(drivertest.Stale), w.Fenced, text, query)
				if !errors.Is(err, guard.ErrUnsupported) && !errors.Is(err, guard.ErrFenced) {
					t.Errorf("%s, stale: got error %v", text, err)
				}
			}
		}
	})
}
