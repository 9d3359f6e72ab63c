package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/lib/pq"
	"go.uber.org/goleak"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestMain(m *testing.M) {
	fence.Register("sqlfence-pq", &pq.Driver{}, sqlgen.PostgreSQL)
	leak.Main(m, goleak.IgnoreTopFunction("os/exec.(*Cmd).Wait"))
}

// lib/pq stands for every driver of which this package knows no more than that
// it speaks to PostgreSQL.
func TestDriverOfWhichNothingIsKnown(t *testing.T) {
	server := testserver.PostgreSQL(t)[0]
	open := func(t *testing.T, name, dsn string) *sql.DB {
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
	e := drivertest.Engine{
		Engine: sqlgen.PostgreSQL,
		New: func(t *testing.T) (fenced, bare *sql.DB) {
			dsn := server.Database(t)
			fenced, bare = open(t, "sqlfence-pq", dsn), open(t, "postgres", dsn)
			if err := guard.Migrate(t.Context(), bare, sqlgen.PostgreSQL); err != nil {
				t.Fatal(err)
			}
			return fenced, bare
		},
		Refused: []string{"UPDATE d SET v = 'x'; DELETE FROM d", "COPY d FROM STDIN", "VACUUM d"},
	}
	t.Run("every kind of write", func(t *testing.T) { drivertest.EveryKind(t, e) })
	t.Run("fail closed", func(t *testing.T) { drivertest.FailClosed(t, e) })
	t.Run("poisoned transactions", func(t *testing.T) { drivertest.PoisonedTransaction(t, e) })
	t.Run("the executing context decides", func(t *testing.T) { drivertest.ExecutingContextDecides(t, e) })
	t.Run("a character that ends in a backslash", func(t *testing.T) {
		w := drivertest.NewWorld(t, e)
		const hidden = "WITH x AS (SELECT E'\x95\x5C'), y AS (DELETE FROM d RETURNING 1) SELECT 1 --') SELECT 1"
		bare, fenced := w.Conn(w.Bare), w.Conn(w.Fenced)
		w.Must(bare, `SET client_encoding = 'SJIS'`)
		w.Must(bare, hidden)
		if w.Table() != "" {
			t.Error("the control shows nothing: the write has not landed")
		}
		w.Reset()
		w.Must(fenced, `SET client_encoding = 'SJIS'`)
		_, err := fenced.ExecContext(w.With(drivertest.Stale), hidden)
		w.Want("hidden", err, guard.ErrUnsupported)
		w.IsUntouched()
	})
	t.Run("the name of a resource in another encoding", func(t *testing.T) {
		w := drivertest.NewWorld(t, e)
		name := guard.Token{Resource: "ключ", Epoch: 2, Grant: 0}
		w.Want("Advance", guard.NewFence(w.Bare, w.Engine.Engine).Advance(t.Context(), name), nil)
		c := w.Conn(w.Fenced)
		w.Must(c, `SET client_encoding = 'LATIN1'`)
		_, err := c.ExecContext(w.With(name), `UPDATE d SET v = 'x'`)
		w.Want("LATIN1", err, guard.ErrSetup)
		w.IsUntouched()
		w.Must(c, `SET client_encoding = 'UTF8'`)
		_, err = c.ExecContext(w.With(name), `UPDATE d SET v = 'x'`)
		w.Want("UTF8", err, nil)
	})
	t.Run("a refused transaction that its user leaves open", func(t *testing.T) {
		w := drivertest.NewWorld(t, e)
		w.Fenced.SetMaxOpenConns(1)
		c := w.Conn(w.Fenced)
		w.Must(c, `BEGIN`)
		_, err := c.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'x'`)
		w.Want("the stale write", err, guard.ErrFenced)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		// It is nothing to whoever gets the connection next.
		w.Must(w.Fenced, `SELECT 1`)
		_, err = w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
		w.Want("the next write", err, nil)
		w.IsUntouched()
	})
	t.Run("compared with the bare driver", func(t *testing.T) {
		c := drivertest.PostgreSQLComparison
		c.Roads = []string{"DB.Exec", "DB.Query", "Stmt.Query, twice", "Tx.Stmt", "an ended context"}
		drivertest.Compare(t, drivertest.NewWorld(t, e), c)
	})
	t.Run("checked first", func(t *testing.T) {
		w := drivertest.NewWorld(t, e)
		exec := func(db interface {
			ExecContext(context.Context, string, ...any) (sql.Result, error)
		}, token guard.Token, text string) error {
			_, err := db.ExecContext(w.With(token), text)
			return err
		}
		w.Want("TRUNCATE, stale", exec(w.Fenced, drivertest.Stale, `TRUNCATE d`), guard.ErrFenced)
		w.Want("DO outside of a transaction", exec(w.Fenced, drivertest.Current, `DO 'BEGIN DELETE FROM d; COMMIT; END'`), guard.ErrUnsupported)
		w.Want("a backslash before a quote", exec(w.Fenced, drivertest.Current, `UPDATE d SET v = 'C:\'`), guard.ErrUnsupported)
		tx := w.Begin(t.Context(), w.Fenced)
		w.Want("DO, stale", exec(tx, drivertest.Stale, `DO 'BEGIN DELETE FROM d; END'`), guard.ErrFenced)
		w.Want("Commit", tx.Commit(), guard.ErrFenced)
		c := w.Conn(w.Fenced)
		w.Must(c, `BEGIN`)
		var invalid *pq.Error
		if err := exec(c, drivertest.Current, `DO 'BEGIN DELETE FROM d; COMMIT; END'`); !errors.As(err, &invalid) || invalid.Code != "2D000" {
			t.Errorf("DO that commits, behind BEGIN: got error %v, want 2D000", err)
		}
		w.Must(c, `ROLLBACK`)
		w.IsUntouched()
		w.Want("TRUNCATE", exec(w.Fenced, drivertest.Current, `TRUNCATE d`), nil)
		if got := w.Table(); got != "" {
			t.Errorf("the table reads %s", got)
		}
	})
	t.Run("rules that take no fence", func(t *testing.T) {
		w := drivertest.NewWorld(t, e)
		w.Must(w.Bare, `CREATE TABLE other (v text)`)
		w.Must(w.Bare, `CREATE RULE several AS ON UPDATE TO d WHERE old.id = 1 DO INSTEAD UPDATE other SET v = new.v`)
		w.Must(w.Bare, `UPDATE d SET v = v`) // bare, it goes well
		for _, args := range [][]any{{`UPDATE d SET v = 'x'`}, {`UPDATE d SET v = $1`, "x"}} {
			_, err := w.Fenced.ExecContext(w.With(drivertest.Current), args[0].(string), args[1:]...)
			w.Want(args[0].(string), err, guard.ErrUnsupported)
			var server *pq.Error
			if !errors.As(err, &server) || server.Code != "0A000" {
				t.Errorf("the server's error is lost: %v", err)
			}
		}
		w.IsUntouched()
	})
	t.Run("prepared under other settings", func(t *testing.T) {
		w := drivertest.NewWorld(t, e)
		const hidden = `WITH a AS (SELECT '\' AS x, ' AS y), b AS (DELETE FROM d RETURNING 1) SELECT 1 --' AS z) SELECT 1`
		c := w.Conn(w.Fenced)
		w.Must(c, `SET standard_conforming_strings = off`)
		s, err := c.PrepareContext(t.Context(), hidden)
		w.Want("Prepare", err, nil)
		w.Must(c, `SET standard_conforming_strings = on`)
		_, err = s.ExecContext(t.Context())
		w.Want("the control", err, nil)
		if w.Table() != "" {
			t.Error("the control shows nothing: the write has not landed")
		}
		w.Reset()
		_, err = s.ExecContext(w.With(drivertest.Stale))
		w.Want("stale", err, guard.ErrUnsupported)
		w.IsUntouched()
		w.Want("Close", s.Close(), nil)
	})
	t.Run("several statements at once", func(t *testing.T) { severalStatementsAtOnce(t, drivertest.NewWorld(t, e)) })
	t.Run("texts that end transactions", func(t *testing.T) { textsThatEndTransactions(t, drivertest.NewWorld(t, e)) })
	t.Run("not set up", func(t *testing.T) {
		dsn := server.Database(t)
		w := &drivertest.World{T: t, Engine: e, Bare: open(t, "postgres", dsn)}
		drivertest.NotSetUp(t, w, open(t, "sqlfence-pq", dsn))
	})
}
