package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	modernc "modernc.org/sqlite"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/sqlite"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestMain(m *testing.M) { leak.Main(m) }

const pragmas = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"

func open(t *testing.T, name, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(name, dsn)
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

var engine = drivertest.Engine{
	Engine: sqlgen.SQLite,
	New: func(t *testing.T) (fenced, bare *sql.DB) {
		dsn := "file:" + testserver.SQLiteFile(t) + pragmas
		fenced, bare = open(t, sqlite.DriverName, dsn), open(t, "sqlite", dsn)
		if err := guard.Migrate(t.Context(), bare, sqlgen.SQLite); err != nil {
			t.Fatal(err)
		}
		return fenced, bare
	},
	Refused: []string{
		"UPDATE d SET v = 'x'; DELETE FROM d",
		"SELECT 1; UPDATE d SET v = 'x'",
		"UPDATE d SET v = 'x' WHERE ((id = 1)",
		"VACUUM",
		"nonsense about d",
		"ATTACH ':memory:' AS other",
	},
}

func TestG5AndG6EveryKindOfWriteOnEveryRoad(t *testing.T) { drivertest.EveryKind(t, engine) }

func TestG4FailClosed(t *testing.T) { drivertest.FailClosed(t, engine) }

func TestG8AFencedTransactionCannotCommit(t *testing.T) { drivertest.PoisonedTransaction(t, engine) }

func TestG9TheExecutingContextDecides(t *testing.T) { drivertest.ExecutingContextDecides(t, engine) }

func TestManyGoroutines(t *testing.T) { drivertest.Race(t, engine) }

func TestPolicies(t *testing.T) { drivertest.Policies(t, engine, withPolicy) }

func TestBindingsAndAudit(t *testing.T) { drivertest.BindingsAndAudit(t, engine, withPolicy) }

func withPolicy(t *testing.T, w *drivertest.World, p guard.Policy) *sql.DB {
	return like(t, w, fence.WithPolicy(p))
}

// like opens the database of the world behind the fence, with options.
func like(t *testing.T, w *drivertest.World, opts ...fence.Option) *sql.DB {
	t.Helper()
	c, err := modernc.NewConnector("file:" + file(t, w.Bare) + pragmas)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(sqlite.WrapConnector(c, opts...))
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// file returns the path of the main database.
func file(t *testing.T, db *sql.DB) string {
	t.Helper()
	var path string
	if err := db.QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDatabaseThatIsNotSetUp(t *testing.T) {
	dsn := "file:" + testserver.SQLiteFile(t) + pragmas
	w := &drivertest.World{T: t, Engine: engine, Bare: open(t, "sqlite", dsn)}
	drivertest.NotSetUp(t, w, open(t, sqlite.DriverName, dsn))
}

func TestSchemaOfAnotherVersion(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	for _, version := range []int{sqlgen.SchemaVersion + 1} {
		w.Must(w.Bare, `UPDATE main.sqlfence_meta SET version = $1`, version)
		for _, inTx := range []bool{false, true} {
			db := open(t, sqlite.DriverName, "file:"+file(t, w.Bare)+pragmas)
			var err error
			if inTx {
				tx := w.Begin(w.With(drivertest.Current), db)
				_, err = tx.Exec(`UPDATE d SET v = 'x'`)
				w.Want("Rollback", tx.Rollback(), nil)
			} else {
				_, err = db.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = 'x'`)
			}
			w.Want("a newer schema", err, guard.ErrSetup)
			w.IsUntouched()
		}
	}
}

// SPEC G1, at the driver: a transaction that was open before the takeover, one
// that is taken over while it holds the write lock, and the takeover itself.
func TestG1NoStaleWriteAfterATakeover(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	impatient := open(t, "sqlite", "file:"+file(t, w.Bare)+"?_pragma=busy_timeout(20)")
	takeover := guard.NewFence(impatient, sqlgen.SQLite)
	ctx := w.With(drivertest.Current)

	early := w.Begin(ctx, w.Fenced) // open, and has done nothing
	reading := w.Begin(ctx, w.Fenced)
	if err := reading.QueryRow(`SELECT count(*) FROM d`).Scan(new(int)); err != nil {
		t.Fatal(err)
	}
	writing := w.Begin(ctx, w.Fenced)
	if _, err := writing.Exec(`UPDATE d SET v = 'in time' WHERE id = 1`); err != nil {
		t.Fatal(err)
	}
	if err := takeover.Advance(t.Context(), drivertest.Unknown); err == nil {
		t.Fatal("the mark moved while a guarded transaction was open")
	}
	w.Want("Commit", writing.Commit(), nil)
	after := w.Table()
	w.Want("Advance", guard.NewFence(w.Bare, sqlgen.SQLite).Advance(t.Context(), drivertest.Unknown), nil)

	_, err := early.Exec(`UPDATE d SET v = 'late' WHERE id = 2`)
	w.Want("a transaction that was open", err, guard.ErrFenced)
	w.Want("its Commit", early.Commit(), guard.ErrFenced)
	// It has read before: SQLite itself refuses it, and a retry is fenced.
	if _, err = reading.Exec(`UPDATE d SET v = 'late' WHERE id = 2`); err == nil {
		t.Error("a transaction with an old snapshot wrote")
	}
	w.Want("Rollback", reading.Rollback(), nil)
	_, err = w.Fenced.ExecContext(ctx, `UPDATE d SET v = 'late' WHERE id = 2`)
	w.Want("autocommit", err, guard.ErrFenced)
	if got := w.Table(); got != after {
		t.Errorf("the table reads %q, want %q", got, after)
	}
	_, err = w.Fenced.ExecContext(w.With(drivertest.Unknown), `UPDATE d SET v = 'new owner' WHERE id = 2`)
	w.Want("the new owner", err, nil)
}

// SPEC G1: the fence is never put into a comment.
func TestG1HalfAComment(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	w.HalfAComment(w.Fenced)
}

// SPEC G10: nothing that a user may name changes what the fence reads.
func TestG10NoCapture(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	c := w.Conn(w.Fenced)
	for _, text := range []string{
		`CREATE TEMP TABLE sqlfence_fences (resource TEXT PRIMARY KEY, high_water INTEGER, grant_id INTEGER)`,
		`INSERT INTO temp.sqlfence_fences VALUES ('job-42', 6, 60)`,
		`CREATE TEMP TABLE sqlfence_meta (only INTEGER, version INTEGER, floor INTEGER)`,
		`CREATE TABLE sqlfence_f (id INTEGER PRIMARY KEY, resource TEXT, high_water INTEGER, grant_id INTEGER)`,
		`INSERT INTO sqlfence_f VALUES (1, 'job-42', 6, 60)`,
	} {
		w.Must(c, text)
	}
	for _, text := range []string{
		`UPDATE sqlfence_f SET high_water = 5`,
		`UPDATE sqlfence_f AS sqlfence_f SET high_water = 5 WHERE id = 1`,
		`DELETE FROM sqlfence_f`,
		`WITH sqlfence_fences AS (SELECT 'job-42' AS resource, 6 AS high_water, 60 AS grant_id) UPDATE d SET v = 'x'`,
		`INSERT INTO sqlfence_f SELECT 2, 'job-42', 6, 60 FROM sqlfence_f`,
		`UPDATE d SET v = 'x'`,
	} {
		_, err := c.ExecContext(w.With(drivertest.Stale), text)
		if !errors.Is(err, guard.ErrFenced) && !errors.Is(err, guard.ErrUnsupported) {
			t.Errorf("%s with a stale token: %v", text, err)
		}
	}
	var left int
	if err := c.QueryRowContext(t.Context(), `SELECT count(*) FROM sqlfence_f WHERE high_water = 6`).Scan(&left); err != nil || left != 1 {
		t.Errorf("the user's table has %d rows, %v", left, err)
	}
	w.IsUntouched()
	_, err := c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = 'valid' WHERE id = 1`)
	w.Want("a valid token", err, nil)
}

// SPEC G13: two grants of one epoch.
func TestG13TwoGrantsOfOneEpoch(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	_, err := w.Fenced.ExecContext(w.With(drivertest.Rival), `UPDATE d SET v = 'rival'`)
	var f *guard.FencedError
	if !errors.As(err, &f) || f.HighWater != f.Token.Epoch || f.Token != drivertest.Rival {
		t.Errorf("the other grant: %v", err)
	}
	w.IsUntouched()
	_, err = w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = 'mine'`)
	w.Want("the grant of the mark", err, nil)
}

// An unqualified name may be that of a table in an attached database, whose
// writing takes no lock on main: there the check comes first, under main's lock.
// A refused statement whose context ends before its rows are read still ends the
// transaction.
func TestAnEndedContextDoesNotHideARefusal(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	for range 50 {
		tx := w.Begin(t.Context(), w.Fenced)
		_, err := tx.ExecContext(guard.Without(t.Context()), `UPDATE d SET v = 'before'`)
		w.Want("before", err, nil)
		ctx, cancel := context.WithCancel(w.With(drivertest.Stale))
		rows, err := tx.QueryContext(ctx, `INSERT INTO d (v) VALUES ('x') RETURNING id`)
		cancel()
		if err == nil {
			for rows.Next() {
			}
			rows.Close()
		}
		if err := tx.Commit(); !errors.Is(err, guard.ErrFenced) {
			t.Fatalf("Commit: error %v, want ErrFenced", err)
		}
	}
	w.IsUntouched()
}

// endsAfter is a context that ends when it has been looked at n times: wherever
// that is, in database/sql, in our driver or in SQLite's.
type endsAfter struct {
	context.Context
	looks atomic.Int64
	n     int64
	done  chan struct{}
}

func (c *endsAfter) Done() <-chan struct{} {
	if c.looks.Add(1) == c.n {
		close(c.done)
	}
	return c.done
}

func (c *endsAfter) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// A stale statement that the end of its context has interrupted is refused all
// the same, once it has reached the driver.
func TestAStatementThatIsInterruptedIsRefused(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	fenced := 0
	for n := int64(1); n <= 8; n++ {
		tx := w.Begin(t.Context(), w.Fenced)
		// What the driver asks once is asked here.
		_, err := tx.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = 'before'`)
		w.Want("before", err, nil)
		ctx := &endsAfter{Context: w.With(drivertest.Stale), n: n, done: make(chan struct{})}
		_, err = tx.ExecContext(ctx, `UPDATE d SET v = 'x'`)
		committed := tx.Commit()
		switch {
		case errors.Is(err, guard.ErrFenced):
			fenced++
			if !errors.Is(committed, guard.ErrFenced) {
				t.Errorf("context ended at look %d: Commit: error %v, want ErrFenced", n, committed)
			}
		case !errors.Is(err, context.Canceled) || n > 2:
			// Only database/sql itself gives up before the driver is asked.
			t.Errorf("context ended at look %d: error %v, want ErrFenced", n, err)
		default:
			w.Reset()
		}
	}
	if fenced == 0 {
		t.Error("no context ended late enough")
	}
	w.IsUntouched()
}

// PRAGMA count_changes answers each write with a row, which is no proof that it
// wrote.
func TestARowThatSQLiteMakesIsNoProof(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	c := w.Conn(w.Fenced)
	w.Must(c, `PRAGMA count_changes = 1`)
	for _, text := range []string{`UPDATE d SET v = 'x'`, `DELETE FROM d`, `INSERT INTO d (v) VALUES ('x')`} {
		var n int
		w.Want("QueryRow "+text, c.QueryRowContext(w.With(drivertest.Stale), text).Scan(&n), guard.ErrFenced)
		rows, err := c.QueryContext(w.With(drivertest.Stale), text)
		w.Want("Query "+text, err, nil)
		for rows.Next() {
		}
		w.Want("Rows "+text, rows.Err(), guard.ErrFenced)
		rows.Close()
	}
	w.IsUntouched()
	var n int
	w.Want("valid", c.QueryRowContext(w.With(drivertest.Current), `UPDATE d SET v = v`).Scan(&n), nil)
	if n == 0 {
		t.Error("the valid write says that it changed no row")
	}
}

func TestAttachedDatabases(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	other := testserver.SQLiteFile(t)
	for name, attach := range map[string]func(c *sql.Conn){
		"before the first guarded statement": func(*sql.Conn) {},
		"after it": func(c *sql.Conn) {
			_, err := c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
			w.Want("before", err, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.In(t)
			c := w.Conn(w.Fenced)
			attach(c)
			w.Must(c, `ATTACH '`+other+`' AS other`)
			w.Must(c, `CREATE TABLE IF NOT EXISTS other.far (id INTEGER PRIMARY KEY, v TEXT)`)
			w.Must(c, `INSERT OR REPLACE INTO far VALUES (1, 'far')`)
			far := func() (v string) {
				if err := c.QueryRowContext(t.Context(), `SELECT v FROM far WHERE id = 1`).Scan(&v); err != nil {
					t.Fatal(err)
				}
				return v
			}
			for _, text := range []string{`UPDATE far SET v = 'x'`, `UPDATE other.far SET v = 'x' RETURNING id, v`, `UPDATE d SET v = 'x'`} {
				_, err := c.ExecContext(w.With(drivertest.Stale), text)
				w.Want(text, err, guard.ErrFenced)
				rows, err := c.QueryContext(w.With(drivertest.Stale), text)
				if err == nil {
					rows.Close()
				}
				w.Want("Query "+text, err, guard.ErrFenced)
			}
			if got := far(); got != "far" {
				t.Errorf("the attached table reads %q", got)
			}
			w.IsUntouched()
			res, err := c.ExecContext(w.With(drivertest.Current), `UPDATE far SET v = 'x'`)
			w.Want("valid", err, nil)
			if n, _ := res.RowsAffected(); n != 1 || far() != "x" {
				t.Errorf("%d rows affected, the attached table reads %q", n, far())
			}
			var id int
			var v string
			w.Want("valid, RETURNING", c.QueryRowContext(w.With(drivertest.Current), `UPDATE far SET v = 'y' RETURNING id, v`).Scan(&id, &v), nil)
			if id != 1 || v != "y" {
				t.Errorf("RETURNING gave %d, %q", id, v)
			}
			// In a transaction of the user's, which the check must not end.
			w.Must(c, `BEGIN`)
			_, err = c.ExecContext(w.With(drivertest.Current), `UPDATE far SET v = 'z'`)
			w.Want("in a transaction", err, nil)
			_, err = c.ExecContext(w.With(drivertest.Current), `UPDATE far SET id = NULL WHERE nonsense`)
			if err == nil {
				t.Error("an error of the statement is lost")
			}
			w.Must(c, `ROLLBACK`)
			if got := far(); got != "y" {
				t.Errorf("rolled back, the attached table reads %q", got)
			}
			// The lock of main is held while the statement runs.
			w.Must(c, `BEGIN`)
			_, err = c.ExecContext(w.With(drivertest.Current), `UPDATE far SET v = 'z'`)
			w.Want("in a transaction", err, nil)
			impatient := open(t, "sqlite", "file:"+file(t, w.Bare)+"?_pragma=busy_timeout(20)")
			if err := guard.NewFence(impatient, sqlgen.SQLite).Advance(t.Context(), drivertest.Unknown); err == nil {
				t.Error("the mark moved while a guarded transaction was open")
			}
			w.Must(c, `ROLLBACK`)
			w.Must(c, `DETACH other`)
			_, err = c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
			w.Want("after DETACH", err, nil)
			w.Want("Close", c.Close(), nil)
		})
	}
}

// SQLite rolls whole transactions back by itself. The session then believes in a
// transaction that is not there; nothing may depend on that.
func TestSQLiteEndsTransactionsByItself(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	c := w.Conn(w.Fenced)
	w.Must(c, `BEGIN`)
	if _, err := c.ExecContext(t.Context(), `INSERT OR ROLLBACK INTO d (id) VALUES (1)`); err == nil {
		t.Fatal("no conflict")
	}
	_, err := c.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'stale'`)
	w.Want("stale", err, guard.ErrFenced)
	_, err = c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
	w.Want("not poisoned, for there was no transaction", err, nil)

	w.Must(c, `SAVEPOINT outer`)
	w.Must(c, `UPDATE d SET v = 'unguarded'`)
	_, err = c.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'stale'`)
	w.Want("stale, in a savepoint that began the transaction", err, guard.ErrFenced)
	for _, text := range []string{`SELECT 1`, `ROLLBACK TO outer`, `RELEASE inner`, `RELEASE outer`} {
		_, err = c.ExecContext(t.Context(), text)
		w.Want(text, err, guard.ErrFenced)
	}
	w.IsUntouched()
	_, err = c.ExecContext(t.Context(), `SELECT 1`)
	w.Want("after its end", err, nil)

	tx, err := c.BeginTx(w.With(drivertest.Stale), nil)
	w.Want("BeginTx", err, nil)
	if _, err := tx.ExecContext(guard.Without(context.Background()), `INSERT OR ROLLBACK INTO d (id) VALUES (1)`); err == nil {
		t.Fatal("no conflict")
	}
	_, err = tx.Exec(`UPDATE d SET v = 'stale'`)
	w.Want("stale", err, guard.ErrFenced)
	w.Want("Commit", tx.Commit(), guard.ErrFenced)
	w.IsUntouched()
	w.Want("Ping", c.PingContext(t.Context()), nil)
	w.Want("Close", c.Close(), nil)
}

// In a deferred transaction the first statement waits for the write lock. A
// question of ours before it would take that away.
func TestTheFirstWriteOfATransactionStillWaits(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	const wait = 200 * time.Millisecond
	db := open(t, sqlite.DriverName, "file:"+file(t, w.Bare)+"?_pragma=busy_timeout(200)") // has never asked for the schema's version
	blocker := w.Begin(t.Context(), w.Bare)
	if _, err := blocker.Exec(`UPDATE d SET n = n + 1`); err != nil {
		t.Fatal(err)
	}
	tx := w.Begin(w.With(drivertest.Current), db)
	start := time.Now()
	_, err := tx.Exec(`UPDATE d SET n = n + 1`)
	var busy *modernc.Error
	if waited := time.Since(start); !errors.As(err, &busy) || busy.Code() != 5 || waited < wait/2 {
		t.Errorf("after %v: %v; want SQLITE_BUSY after %v", waited, err, wait)
	}
	w.Want("the other's Commit", blocker.Commit(), nil)
	_, err = tx.Exec(`UPDATE d SET n = n + 1`)
	w.Want("the write", err, nil)
	w.Want("Commit", tx.Commit(), nil)
}

func TestRaw(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	c := w.Conn(w.Fenced)
	err := c.Raw(func(dc any) error {
		if _, ok := dc.(interface{ Serialize() ([]byte, error) }); ok {
			t.Error("the bare connection shows without Raw")
		}
		raw, ok := fence.Raw(dc)
		if !ok {
			return errors.New("not ours")
		}
		if _, ok := raw.(interface{ Serialize() ([]byte, error) }); !ok {
			t.Errorf("Raw returns a %T", raw)
		}
		return nil
	})
	w.Want("Raw", err, nil)
}

// Modernc.org/sqlite binds $5 to the fifth argument, though SQLite knows it as a
// name: an argument of the fence must never end up in the user's data.
func TestArgumentsOfTheFenceStayOutOfTheData(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	for _, x := range []struct {
		text string
		args []any
	}{
		{`UPDATE d SET v = $5 WHERE id = $1`, []any{1, "x"}},
		{`UPDATE d SET v = $5 WHERE id = $1`, []any{1, 2, 3, 4, "five"}},
		{`UPDATE d SET v = $3 WHERE id = $4`, []any{"x", "y"}},
		{`UPDATE d SET v = '$500' WHERE id = $1`, []any{1}},
		{`UPDATE d SET v = $2 WHERE id = $1`, []any{1, "two"}},
		{`UPDATE d SET v = ?5 WHERE id = ?1`, []any{1, 2, 3, 4, "five"}},
		{`UPDATE d SET v = ?5 WHERE id = ?1`, []any{1, "x"}},
		{`UPDATE d SET v = :v WHERE id = @id`, []any{sql.Named("id", 1), sql.Named("v", "named")}},
		{`UPDATE d SET v = :v WHERE id = @id`, []any{sql.Named("id", 1), sql.Named("v", "named"), sql.Named("w", "left over")}},
		{`UPDATE d SET v = :v WHERE id = @v`, []any{sql.Named("v", 1)}},
		{`UPDATE d SET v = ? || :v WHERE id = ?`, []any{"a", sql.Named("v", "named"), 1}},
		{`UPDATE d SET v = :v || ? WHERE id = 1`, []any{sql.Named("v", "named"), "a"}},
		{`INSERT INTO d (id, v) VALUES (?, ?), (?, :v) ON CONFLICT (id) DO UPDATE SET v = ?2 || excluded.v`, []any{4, "a", 1, sql.Named("v", "b")}},
	} {
		do := func(db *sql.DB, ctx context.Context, prepared bool) (string, error) {
			w.Reset()
			var err error
			if prepared {
				var s *sql.Stmt
				if s, err = db.Prepare(x.text); err == nil {
					_, err = s.ExecContext(ctx, x.args...)
					s.Close()
				}
			} else {
				_, err = db.ExecContext(ctx, x.text, x.args...)
			}
			return w.Table(), err
		}
		for _, prepared := range []bool{false, true} {
			bare, bareErr := do(w.Bare, t.Context(), prepared)
			for _, ctx := range []context.Context{t.Context(), w.With(drivertest.Current), w.With(drivertest.Current, drivertest.Other)} {
				got, err := do(w.Fenced, ctx, prepared)
				if got != bare || (err == nil) != (bareErr == nil) {
					t.Errorf("%s %v: got %q, %v; bare %q, %v", x.text, x.args, got, err, bare, bareErr)
				}
			}
			got, err := do(w.Fenced, w.With(drivertest.Stale), prepared)
			if got != drivertest.Untouched || err == nil {
				t.Errorf("%s %v, stale: %q, %v", x.text, x.args, got, err)
			}
		}
	}
}

// CASES D24: a statement whose own parameters leave no room for those of the
// fence.
func TestAllParametersTaken(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	const rows = 16383 // of two parameters each
	text := `INSERT INTO d (id, v) VALUES (?, ?)` + strings.Repeat(`, (?, ?)`, rows-1)
	args := make([]any, 0, 2*rows)
	for i := range rows {
		args = append(args, 100+i, "x")
	}
	_, err := w.Fenced.ExecContext(w.With(drivertest.Stale), text, args...)
	w.Want("stale", err, guard.ErrFenced)
	w.IsUntouched()
	res, err := w.Fenced.ExecContext(w.With(drivertest.Current), text, args...)
	w.Want("valid", err, nil)
	if n, _ := res.RowsAffected(); n != rows {
		t.Errorf("%d rows", n)
	}
}

// Rows that are open when a transaction is refused end with it.
func TestRowsThatAreOpenWhenTheTransactionIsRefused(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	tx := w.Begin(t.Context(), w.Fenced)
	rows, err := tx.Query(`SELECT id FROM d`)
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	written, err := tx.QueryContext(w.With(drivertest.Current), `UPDATE d SET v = 'x' RETURNING id`)
	if err != nil || !written.Next() {
		t.Fatal(err)
	}
	_, err = tx.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'stale'`)
	w.Want("the stale write", err, guard.ErrFenced)
	for rows.Next() {
	}
	_, _ = rows.Close(), written.Close() // what SQLite says of them is its own affair
	_, err = tx.Exec(`SELECT 1`)
	w.Want("afterwards", err, guard.ErrFenced)
	w.Want("Commit", tx.Commit(), guard.ErrFenced)
	w.IsUntouched()
	_, err = w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
	w.Want("the next user", err, nil)
}

// A transaction by text over a pool of one connection, which database/sql resets
// between the statements.
func TestTransactionByTextThroughThePool(t *testing.T) {
	w := drivertest.NewWorld(t, engine)
	w.Fenced.SetMaxOpenConns(1)
	w.Must(w.Fenced, `BEGIN`)
	w.Must(w.Fenced, `UPDATE d SET v = 'unguarded' WHERE id = 1`)
	_, err := w.Fenced.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'stale' WHERE id = 2`)
	w.Want("the stale write", err, guard.ErrFenced)
	_, err = w.Fenced.Exec(`UPDATE d SET v = 'later' WHERE id = 3`)
	w.Want("the next statement", err, guard.ErrFenced)
	_, err = w.Fenced.Exec(`COMMIT`)
	w.Want("COMMIT", err, guard.ErrFenced)
	w.IsUntouched()
	_, err = w.Fenced.Exec(`UPDATE d SET v = v`)
	w.Want("afterwards", err, nil)
}

func TestWhatLandedIsNotCalledFenced(t *testing.T) {
	drivertest.Landed(drivertest.NewWorld(t, engine), `CREATE TRIGGER bump AFTER UPDATE ON d BEGIN UPDATE sqlfence_fences SET high_water = high_water + 1 WHERE resource = 'job-42'; END`)
}
