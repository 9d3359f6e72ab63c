package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

const twoRows = `INSERT INTO d (id, v) SELECT 7, 'a' UNION ALL SELECT 8, 'b'` // is checked first

// completion_type would let a COMMIT of ours begin another transaction, in which the
// next write would be lost, or end the session.
func TestCompletionType(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, kind := range []string{"1", "2"} {
			w.Reset()
			db := like(t, w, func(c *gomysql.Config) { c.Params = map[string]string{"completion_type": kind} })
			db.SetMaxOpenConns(1)
			ctx := w.With(drivertest.Current)
			w.Want("rows", second(db.ExecContext(ctx, twoRows)), nil)
			w.Want("a write", second(db.ExecContext(ctx, `UPDATE d SET v = 'kept' WHERE id = 1`)), nil)
			w.Want("stale rows", second(db.ExecContext(w.With(drivertest.Stale), `INSERT INTO d (id) VALUES (9), (10)`)), guard.ErrFenced)
			tx := w.Begin(w.With(drivertest.Stale), db)
			w.Want("stale", second(tx.Exec(`DELETE FROM d`)), guard.ErrFenced)
			w.Want("Rollback", tx.Rollback(), nil)
			w.Want("a write", second(db.ExecContext(ctx, `UPDATE d SET v = 'kept' WHERE id = 2`)), nil)
			if got := w.Table(); got != "1 kept 10|2 kept 20|3 three 30|7 a 0|8 b 0" {
				t.Errorf("completion_type %s: the table reads %q", kind, got)
			}
		}
	})
}

// SPEC G5: what is read-only stays so, also for what is checked first.
func TestG5ReadOnlySessions(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		ctx := w.With(drivertest.Current)
		for _, setting := range []string{`SET SESSION TRANSACTION READ ONLY`, `SET TRANSACTION READ ONLY`} {
			for _, text := range []string{twoRows, `UPDATE d SET v = 'x' WHERE id = 1`} {
				c := w.Conn(w.Fenced)
				w.Must(c, setting)
				if err := second(c.ExecContext(ctx, text)); number(err) != 1792 {
					t.Errorf("%s: %s: got error %v, want 1792", setting, text, err)
				}
				w.Must(c, `SET SESSION TRANSACTION READ WRITE`)
				w.Want("Close", c.Close(), nil)
			}
		}
		w.IsUntouched()
	})
}

// SPEC G1: the fence is never put into a comment.
func TestG1HalfAComment(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.HalfAComment(w.Fenced)
		w.HalfAComment(like(t, w, func(c *gomysql.Config) { c.InterpolateParams = true }))
	})
}

// A change of autocommit that the text hides: in latin1, 0xA0 is white space for the
// server.
func TestG1AHiddenChangeOfAutocommit(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		db := like(t, w, func(c *gomysql.Config) {
			c.Params = map[string]string{"autocommit": "0"}
			w.Want("Charset", c.Apply(gomysql.Charset("latin1", "")), nil)
		})
		c := w.Conn(db)
		w.Want("rows", second(c.ExecContext(w.With(drivertest.Current), twoRows)), nil)
		w.Must(c, `ROLLBACK`)
		w.Must(c, "SET @x = 1,\xa0autocommit = 1")
		var on int
		w.Want("autocommit", c.QueryRowContext(t.Context(), `SELECT @@autocommit`).Scan(&on), nil)
		if on != 1 {
			t.Fatal("autocommit is off")
		}
		commits := func() (n int) {
			var name string
			w.Want("status", c.QueryRowContext(t.Context(), `SHOW SESSION STATUS LIKE 'Com_commit'`).Scan(&name, &n), nil)
			return n
		}
		before := commits()
		w.Want("rows", second(c.ExecContext(w.With(drivertest.Current), twoRows)), nil)
		if got := w.Table(); got != "1 one 10|2 two 20|3 three 30|7 a 0|8 b 0" {
			t.Errorf("the table reads %q", got)
		}
		if n := commits() - before; n != 1 {
			t.Errorf("%d commits: the rows were checked outside of a transaction", n)
		}
		w.Want("Close", c.Close(), nil)
	})
}

// A transaction begun by text ends at an implicit commit, and its token with it.
func TestG9AnInheritedTokenEndsWithItsTransaction(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		c := w.Conn(w.Fenced)
		begin := func() {
			w.Want("BEGIN", second(c.ExecContext(w.With(drivertest.Stale), `BEGIN`)), nil)
		}
		begin()
		w.Want("within", second(c.ExecContext(t.Context(), `UPDATE d SET v = 'x'`)), guard.ErrFenced)
		w.Want("ROLLBACK", second(c.ExecContext(t.Context(), `ROLLBACK`)), nil)
		begin()
		w.Want("a definition", second(c.ExecContext(guard.Without(t.Context()), `CREATE TABLE ends (id INT)`)), nil)
		w.Want("behind it", second(c.ExecContext(t.Context(), `UPDATE d SET v = v`)), nil)
		begin()
		w.Want("a definition that fails", ignore(number(second(c.ExecContext(guard.Without(t.Context()), `CREATE TABLE ends (id INT)`))) == 1050), nil)
		w.Want("behind it", second(c.ExecContext(t.Context(), `UPDATE d SET v = v`)), nil)
		w.Want("Close", c.Close(), nil)
		w.IsUntouched()
	})
}

func ignore(expected bool) error {
	if expected {
		return nil
	}
	return errors.New("another error")
}

// A limit of the session's is not one of the fence's questions.
func TestG5SelectLimit(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, limit := range []string{"0", "1"} {
			w.Reset()
			db := like(t, w, func(c *gomysql.Config) { c.Params = map[string]string{"sql_select_limit": limit} })
			ctx := w.With(drivertest.Current, drivertest.Other)
			for _, text := range []string{twoRows, `INSERT INTO d (id, v) VALUES (9, 'c')`, `UPDATE d SET v = 'x' WHERE id = 999`} {
				w.Want(text, second(db.ExecContext(ctx, text)), nil)
			}
			w.Want("stale", second(db.ExecContext(w.With(drivertest.Stale), `DELETE FROM d`)), guard.ErrFenced)
			if got := w.Table(); got != "1 one 10|2 two 20|3 three 30|7 a 0|8 b 0|9 c 0" {
				t.Errorf("sql_select_limit %s: the table reads %q", limit, got)
			}
		}
	})
}

// An Advance that was given up has no effect later, on whatever it was asked: the server
// does not notice that its client has gone, and would go on waiting.
func TestG2AnAdvanceThatWasGivenUpHasNoEffect(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		mark := guardMark(t, w)
		next := drivertest.Current
		next.Epoch = mark + 1
		for name, on := range map[string]guard.Querier{
			"a pool": w.Bare, "a connection": w.Conn(w.Bare), "a transaction": w.Begin(t.Context(), w.Bare),
			"a pool behind the fence": w.Fenced, "a connection behind the fence": w.Conn(w.Fenced),
		} {
			writing := w.Begin(w.With(drivertest.Current), w.Fenced)
			w.Must(writing, `UPDATE d SET v = v`)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- guard.NewFence(on, sqlgen.MySQL).Advance(ctx, next) }()
			waiting(t, w.Bare)
			cancel()
			w.Want(name+": Advance", <-ended, context.Canceled)
			w.Want(name+": Commit", writing.Commit(), nil)
			// Whoever still waited would come first.
			w.Must(w.Bare, `UPDATE sqlfence_fences SET advanced = advanced`)
			if got := guardMark(t, w); got != mark {
				t.Errorf("%s: the mark is %d, want %d", name, got, mark)
			}
		}
	})
}

// On a connection, Advance has a transaction of its own, but takes part in one that
// is open there.
func TestAdvanceOnAConnection(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		mark := guardMark(t, w)
		next := drivertest.Current
		for _, db := range []*sql.DB{w.Bare, w.Fenced} {
			c := w.Conn(db)
			f := guard.NewFence(c, sqlgen.MySQL)
			mark++
			next.Epoch = mark
			w.Want("Advance", f.Advance(t.Context(), next), nil)
			w.Must(c, `START TRANSACTION`)
			w.Must(c, `UPDATE d SET v = 'undone'`)
			next.Epoch = mark + 1
			w.Want("Advance in a transaction", f.Advance(t.Context(), next), nil)
			w.IsUntouched()
			w.Must(c, `ROLLBACK`)
			if got := guardMark(t, w); got != mark {
				t.Errorf("the mark is %d, want %d", got, mark)
			}
			w.Must(c, `SET autocommit = 0`)
			w.Want("Advance without autocommit", f.Advance(t.Context(), next), nil)
			w.Must(c, `ROLLBACK`)
			if got := guardMark(t, w); got != mark {
				t.Errorf("without autocommit: the mark is %d, want %d", got, mark)
			}
			w.Must(c, `SET autocommit = 1`)
			next.Epoch = 1
			w.Want("an old token", f.Advance(t.Context(), next), guard.ErrFenced)
			w.Want("Close", c.Close(), nil)
		}
	})
}
