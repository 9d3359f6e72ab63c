package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// database is an empty database of one engine.
type database struct {
	engine sqlgen.Engine
	driver string
	dsn    string
}

// eachDatabase runs fn on an empty database of each engine and server.
func eachDatabase(t *testing.T, fn func(t *testing.T, d database)) {
	t.Run("SQLite", func(t *testing.T) {
		file := testserver.SQLiteFile(t)
		fn(t, database{sqlgen.SQLite, "sqlite", "file:" + file + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"})
	})
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		fn(t, database{sqlgen.PostgreSQL, "pgx", dsn})
	})
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		fn(t, database{sqlgen.MySQL, "mysql", dsn})
	})
}

// open returns a pool of its own on the database.
func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// migrated returns a pool on the database, with the schema.
func (d database) migrated(t testing.TB) *sql.DB {
	t.Helper()
	db := d.open(t)
	if err := guard.Migrate(t.Context(), db, d.engine); err != nil {
		t.Fatal(err)
	}
	return db
}

func mustExec(t testing.TB, q guard.Querier, query string) {
	t.Helper()
	if _, err := q.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func mustAdvance(t testing.TB, f *guard.Fence, token guard.Token) {
	t.Helper()
	if err := f.Advance(t.Context(), token); err != nil {
		t.Fatalf("advance to %v: %v", token, err)
	}
}

func begin(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func TestAdvanceAndCheck(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		f := guard.NewFence(db, d.engine)
		at := func(epoch, grant int64) guard.Token {
			return guard.Token{Resource: "job 'ü%", Epoch: epoch, Grant: grant}
		}

		var unregistered *guard.UnregisteredError
		if err := f.Check(t.Context(), at(5, 1)); !errors.As(err, &unregistered) || unregistered.HighWater != 0 || unregistered.Token != at(5, 1) {
			t.Errorf("without a mark: expected ErrUnregistered with mark 0, saw %v", err)
		}
		if mark, err := f.HighWater(t.Context(), at(1, 0).Resource); mark != 0 || err != nil {
			t.Errorf("without a mark: expected 0, saw %d, %v", mark, err)
		}

		steps := []struct {
			token   guard.Token
			check   error // before the advance
			advance error
			mark    int64 // after it
		}{
			{at(5, -7), guard.ErrUnregistered, nil, 5},
			{at(5, -7), nil, nil, 5},
			{at(5, 0), guard.ErrFenced, guard.ErrFenced, 5},
			{at(5, 7), guard.ErrFenced, guard.ErrFenced, 5},
			{at(4, -7), guard.ErrFenced, guard.ErrFenced, 5},
			{at(6, 0), guard.ErrUnregistered, nil, 6},
			{at(1<<53+1, 1), guard.ErrUnregistered, nil, 1<<53 + 1},
			{at(1<<53, 1), guard.ErrFenced, guard.ErrFenced, 1<<53 + 1},
			{at(math.MaxInt64-1, math.MinInt64), guard.ErrUnregistered, nil, math.MaxInt64 - 1},
			{at(math.MaxInt64, math.MaxInt64), guard.ErrUnregistered, nil, math.MaxInt64},
			{at(math.MaxInt64, math.MaxInt64), nil, nil, math.MaxInt64},
			{at(math.MaxInt64-1, math.MinInt64), guard.ErrFenced, guard.ErrFenced, math.MaxInt64},
		}
		for i, s := range steps {
			if err := f.Check(t.Context(), s.token); !errors.Is(err, s.check) {
				t.Errorf("step %d, check of %v: expected %v, saw %v", i, s.token, s.check, err)
			}
			err := f.Advance(t.Context(), s.token)
			if !errors.Is(err, s.advance) {
				t.Errorf("step %d, advance to %v: expected %v, saw %v", i, s.token, s.advance, err)
			}
			var fenced *guard.FencedError
			if errors.As(err, &fenced) && (fenced.Token != s.token || fenced.HighWater != s.mark || !errors.Is(err, guard.ErrLost)) {
				t.Errorf("step %d: expected the token and mark %d, saw %v", i, s.mark, err)
			}
			if mark, err := f.HighWater(t.Context(), s.token.Resource); mark != s.mark || err != nil {
				t.Errorf("step %d: expected mark %d, saw %d, %v", i, s.mark, mark, err)
			}
		}
	})
}

func TestAllTokensOfACheckMustBeValid(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		f := guard.NewFence(d.migrated(t), d.engine)
		a, b, c := guard.Token{Resource: "a", Epoch: 1}, guard.Token{Resource: "b", Epoch: 2, Grant: 3}, guard.Token{Resource: "c", Epoch: 4}
		mustAdvance(t, f, a)
		mustAdvance(t, f, b)
		if err := f.Check(t.Context(), b, a); err != nil {
			t.Errorf("expected both to pass, saw %v", err)
		}
		stale := b
		stale.Epoch = 1
		var fenced *guard.FencedError
		if err := f.Check(t.Context(), c, stale, a); !errors.As(err, &fenced) || fenced.Token != stale || fenced.HighWater != 2 {
			t.Errorf("expected the first by name that is refused, %v, saw %v", stale, err)
		}
		if err := f.Check(t.Context(), b, stale); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("of one resource twice: expected ErrFenced, saw %v", err)
		}
		if err := f.Check(t.Context(), b, a, c); !errors.Is(err, guard.ErrUnregistered) {
			t.Errorf("expected ErrUnregistered, saw %v", err)
		}
	})
}

func TestInvalidInputIsRefusedBeforeTheServerSeesIt(t *testing.T) {
	f := guard.NewFence(nil, sqlgen.SQLite) // nothing may be asked
	for _, token := range []guard.Token{{}, {Resource: "job"}, {Resource: "job", Epoch: -1}, {Resource: "\xff", Epoch: 1}, {Resource: "a\x00", Epoch: 1}} {
		if err := f.Check(t.Context(), token); !errors.Is(err, guard.ErrInvalidInput) {
			t.Errorf("check of %q: expected ErrInvalidInput, saw %v", token, err)
		}
		if err := f.Advance(t.Context(), token); !errors.Is(err, guard.ErrInvalidInput) {
			t.Errorf("advance to %q: expected ErrInvalidInput, saw %v", token, err)
		}
	}
	if err := f.Check(t.Context()); !errors.Is(err, guard.ErrInvalidInput) {
		t.Errorf("check of nothing: expected ErrInvalidInput, saw %v", err)
	}
	if _, err := f.HighWater(t.Context(), ""); !errors.Is(err, guard.ErrInvalidInput) {
		t.Errorf("mark of nothing: expected ErrInvalidInput, saw %v", err)
	}
}

func TestAdvanceInACallersTransactionCountsFromTheCommit(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		token := guard.Token{Resource: "job", Epoch: 5}
		outside := guard.NewFence(db, d.engine)
		for _, commit := range []bool{false, true} {
			tx := begin(t, db)
			inside := guard.NewFence(tx, d.engine)
			mustAdvance(t, inside, token)
			if err := inside.Check(t.Context(), token); err != nil {
				t.Errorf("inside: expected the token to pass, saw %v", err)
			}
			if mark, err := outside.HighWater(t.Context(), "job"); mark != 0 || err != nil {
				t.Errorf("outside: expected no mark yet, saw %d, %v", mark, err)
			}
			end := tx.Rollback
			if commit {
				end = tx.Commit
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			if commit {
				want = 5
			}
			if mark, err := outside.HighWater(t.Context(), "job"); mark != want || err != nil {
				t.Errorf("after the end: expected mark %d, saw %d, %v", want, mark, err)
			}
		}
	})
}

func TestACheckedTransactionHoldsTheTakeoverBackOnPostgreSQL(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := database{sqlgen.PostgreSQL, "pgx", dsn}
		db := d.migrated(t)
		f := guard.NewFence(db, d.engine)
		mustAdvance(t, f, guard.Token{Resource: "job", Epoch: 1})
		tx := begin(t, db)
		if err := guard.NewFence(tx, d.engine).Check(t.Context(), guard.Token{Resource: "job", Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			done <- f.Advance(context.WithoutCancel(t.Context()), guard.Token{Resource: "job", Epoch: 2})
		}()
		for waiting := 0; waiting == 0; {
			err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "+
				"AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&waiting)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				t.Fatalf("expected the takeover to wait, saw it return %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("expected the takeover after the commit, saw %v", err)
		}
	})
}

func TestACheckedTransactionCannotWriteAfterATakeoverOnSQLite(t *testing.T) {
	d := database{sqlgen.SQLite, "sqlite", "file:" + testserver.SQLiteFile(t) + "?_pragma=journal_mode(WAL)"}
	db := d.migrated(t)
	mustExec(t, db, "CREATE TABLE d (v TEXT)")
	f := guard.NewFence(db, d.engine)
	mustAdvance(t, f, guard.Token{Resource: "job", Epoch: 1})
	tx := begin(t, db)
	if err := guard.NewFence(tx, d.engine).Check(t.Context(), guard.Token{Resource: "job", Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	mustAdvance(t, f, guard.Token{Resource: "job", Epoch: 2})
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO d VALUES ('stale')"); err == nil {
		t.Error("expected SQLite to refuse a write from a snapshot before the takeover")
	}
}

func TestACancelledAdvanceLeavesTheCallersTransactionWholeOnSQLite(t *testing.T) {
	d := database{sqlgen.SQLite, "sqlite", "file:" + testserver.SQLiteFile(t) + "?_pragma=journal_mode(WAL)"}
	db := d.migrated(t)
	mustExec(t, db, "CREATE TABLE d (v TEXT)")
	tx := begin(t, db)
	mustExec(t, tx, "INSERT INTO d VALUES ('first')")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := guard.NewFence(tx, d.engine).Advance(ctx, guard.Token{Resource: "job", Epoch: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("expected context.Canceled, saw %v", err)
	}
	mustExec(t, tx, "INSERT INTO d VALUES ('second')")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM d").Scan(&rows); err != nil || rows != 2 {
		t.Errorf("expected both rows, saw %d, %v", rows, err)
	}
}

func TestAdvanceIsDurableWhateverTheConnectionSays(t *testing.T) {
	d := database{sqlgen.SQLite, "sqlite", "file:" + testserver.SQLiteFile(t) + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"}
	db := d.migrated(t)
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The trigger notes the level that the advance ran under.
	mustExec(t, conn, "CREATE TABLE level (v INTEGER)")
	mustExec(t, conn, "CREATE TRIGGER note AFTER INSERT ON sqlfence_fences BEGIN "+
		"INSERT INTO level SELECT synchronous FROM pragma_synchronous; END")
	mustAdvance(t, guard.NewFence(conn, d.engine), guard.Token{Resource: "job", Epoch: 1})
	var during, after int
	if err := conn.QueryRowContext(t.Context(), "SELECT v FROM level").Scan(&during); err != nil || during != 2 {
		t.Errorf("expected FULL (2) during the advance, saw %d, %v", during, err)
	}
	if err := conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&after); err != nil || after != 0 {
		t.Errorf("expected OFF (0) after it, saw %d, %v", after, err)
	}
}

func TestTemporaryTablesAndSearchPathsCannotStandInForTheFence(t *testing.T) { // SPEC G10
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		f := guard.NewFence(conn, d.engine)
		mustAdvance(t, f, guard.Token{Resource: "job", Epoch: 2, Grant: 9})
		switch d.engine {
		case sqlgen.SQLite:
			mustExec(t, conn, "CREATE TEMP TABLE sqlfence_fences AS SELECT * FROM main.sqlfence_fences")
			mustExec(t, conn, "UPDATE temp.sqlfence_fences SET high_water = 1")
			mustExec(t, conn, "CREATE TEMP TABLE sqlfence_meta AS SELECT 1 AS only, 99 AS version")
		case sqlgen.MySQL:
			mustExec(t, conn, "CREATE TEMPORARY TABLE sqlfence_fences AS SELECT resource, high_water, grant_id FROM sqlfence_guard")
			mustExec(t, conn, "UPDATE sqlfence_fences SET high_water = 1")
			mustExec(t, conn, "CREATE TEMPORARY TABLE sqlfence_meta AS SELECT 1 AS only_row, 99 AS version, 0 AS floor")
		default:
			mustExec(t, conn, "CREATE SCHEMA evil")
			mustExec(t, conn, "CREATE TABLE evil.fences AS SELECT 'job'::text AS resource, 1::int8 AS high_water, 9::int8 AS grant_id")
			mustExec(t, conn, "CREATE FUNCTION evil.always(int8, int8) RETURNS bool LANGUAGE sql AS 'SELECT true'")
			mustExec(t, conn, "CREATE OPERATOR evil.= (LEFTARG = int8, RIGHTARG = int8, FUNCTION = evil.always)")
			mustExec(t, conn, "SET search_path = evil, pg_catalog")
		}
		if err := f.Check(t.Context(), guard.Token{Resource: "job", Epoch: 1, Grant: 9}); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("expected ErrFenced, saw %v", err)
		}
		if err := f.Check(t.Context(), guard.Token{Resource: "job", Epoch: 2, Grant: 9}); err != nil {
			t.Errorf("expected the token to pass, saw %v", err)
		}
		if err := guard.CheckSetup(t.Context(), conn, d.engine); err != nil {
			t.Errorf("expected the set-up to be found right, saw %v", err)
		}
	})
}
