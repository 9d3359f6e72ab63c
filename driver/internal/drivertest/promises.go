package drivertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// FailClosed: SPEC G4.
func FailClosed(t *testing.T, e Engine) {
	w := NewWorld(t, e)
	for _, text := range e.Refused {
		t.Run(text, func(t *testing.T) {
			w := w.In(t)
			ctx := w.With(Current)
			check := func(road string, err error) {
				t.Helper()
				var u *guard.UnsupportedError
				if !errors.As(err, &u) {
					t.Errorf("%s: got error %v, want an UnsupportedError", road, err)
				} else if u.Reason == "" || u.Advice == "" || u.Kind == "" {
					t.Errorf("%s: the error says too little: %#v", road, u)
				}
				w.IsUntouched()
			}
			_, err := w.Fenced.ExecContext(ctx, text)
			check("Exec", err)
			rows, err := w.Fenced.QueryContext(ctx, text)
			if err == nil {
				rows.Close()
			}
			check("Query", err)
			tx := w.Begin(ctx, w.Fenced)
			_, err = tx.Exec(text)
			check("Tx.Exec", err)
			_, err = tx.Exec(w.SQL(`UPDATE d SET v = $1 WHERE id = 1`), "after")
			w.Want("the transaction goes on after a refusal that sent nothing", err, nil)
			w.Want("Rollback", tx.Rollback(), nil)
			if s, err := w.Fenced.Prepare(text); err == nil {
				_, err = s.ExecContext(ctx)
				check("Stmt.Exec", err)
				w.Want("Stmt.Close", s.Close(), nil)
			}
		})
	}
	t.Run("tokens that nobody can have issued", func(t *testing.T) {
		w := w.In(t)
		for _, token := range []guard.Token{{}, {Resource: "job-42"}, {Resource: "job-42", Epoch: -1}, {Resource: "a\x00b", Epoch: 1}, {Resource: strings.Repeat("x", 256), Epoch: 1}} {
			_, err := w.Fenced.ExecContext(w.With(token), `UPDATE d SET v = 'x'`)
			w.Want(fmt.Sprintf("%+v", token), err, guard.ErrInvalidInput)
			w.IsUntouched()
		}
	})
	t.Run("arguments that do not fit", func(t *testing.T) {
		w := w.In(t)
		text := w.SQL(`UPDATE d SET v = $1 WHERE id = $2`)
		for _, args := range [][]any{nil, {"x"}, {"x", 1, 2}, {"x", 1, "job-42", int64(7), int64(70)}} {
			w.Reset()
			bareErr := second(w.Bare.ExecContext(t.Context(), text, args...))
			want := w.Table()
			w.Reset()
			err := second(w.Fenced.ExecContext(w.With(Current), text, args...))
			if got := w.Table(); got != want || fmt.Sprint(err) != fmt.Sprint(bareErr) {
				t.Errorf("%v: got %v, %q; bare %v, %q", args, err, got, bareErr, want)
			}
			w.Reset()
			err = second(w.Fenced.ExecContext(w.With(Stale), text, args...))
			w.Want(fmt.Sprint(args, ", stale"), err, guard.ErrFenced)
			w.IsUntouched()
			tx := w.Begin(w.With(Stale), w.Fenced)
			w.Must(&withoutToken{tx}, `UPDATE d SET v = 'unguarded' WHERE id = 3`)
			w.Want(fmt.Sprint(args, ", stale, in a transaction"), second(tx.Exec(text, args...)), guard.ErrFenced)
			w.Want("Commit", tx.Commit(), guard.ErrFenced)
			w.IsUntouched()
			tx = w.Begin(w.With(Current), w.Fenced)
			err = second(tx.Exec(text, args...))
			if fmt.Sprint(err) != fmt.Sprint(bareErr) {
				t.Errorf("%v, in a transaction: %v; bare %v", args, err, bareErr)
			}
			w.Want("Rollback", tx.Rollback(), nil)
			w.IsUntouched()
			rows, err := w.Fenced.QueryContext(w.With(Stale), w.plus(text, ` RETURNING id`), args...)
			if err == nil {
				rows.Close()
			}
			w.Want(fmt.Sprint("Query ", args, ", stale"), err, guard.ErrFenced)
			w.IsUntouched()
			s, err := w.Fenced.Prepare(text)
			w.Want("Prepare", err, nil)
			if err := second(s.ExecContext(w.With(Stale), args...)); err == nil {
				t.Errorf("%v: the prepared statement took them", args)
			}
			w.IsUntouched()
			w.Want("Close", s.Close(), nil)
		}
	})
}

// PoisonedTransaction: SPEC G8.
func PoisonedTransaction(t *testing.T, e Engine) {
	w := NewWorld(t, e)
	stale := func(w *World) context.Context { return w.With(Stale) }
	update := `UPDATE d SET v = 'stale' WHERE id = 1`

	t.Run("everything is refused until Rollback", func(t *testing.T) {
		w := w.In(t)
		s, err := w.Fenced.Prepare(`SELECT 1`)
		w.Want("Prepare", err, nil)
		defer s.Close()
		tx := w.Begin(t.Context(), w.Fenced)
		w.Must(tx, `UPDATE d SET v = 'unguarded' WHERE id = 2`)
		w.Must(tx, `SAVEPOINT a`)
		_, err = tx.ExecContext(stale(w), update)
		w.Want("the stale write", err, guard.ErrFenced)
		for _, text := range []string{`ROLLBACK TO SAVEPOINT a`, `ROLLBACK TO a`, `RELEASE a`, `SAVEPOINT b`, `SELECT 1`, `COMMIT`, `END`, `ROLLBACK`,
			`CREATE TABLE e (id INTEGER)`, `DELETE FROM d`, `INSERT INTO d (id) VALUES (9)`, `nonsense`, `PREPARE TRANSACTION 'x'`, `COMMIT; BEGIN`} {
			for _, ctx := range []context.Context{t.Context(), w.With(Current), guard.Without(t.Context())} {
				_, err := tx.ExecContext(ctx, text)
				w.Want("Exec "+text, err, guard.ErrFenced)
				rows, err := tx.QueryContext(ctx, text)
				if err == nil {
					rows.Close()
				}
				w.Want("Query "+text, err, guard.ErrFenced)
			}
			_, err := tx.Prepare(text)
			w.Want("Prepare "+text, err, guard.ErrFenced)
		}
		_, err = tx.Stmt(s).Exec()
		w.Want("Stmt", err, guard.ErrFenced)
		w.Want("Rollback", tx.Rollback(), nil)
		w.IsUntouched()
	})
	t.Run("Commit returns the refusal", func(t *testing.T) {
		w := w.In(t)
		for _, c := range []struct {
			token guard.Token
			want  error
		}{{Stale, guard.ErrFenced}, {Rival, guard.ErrFenced}, {Unknown, guard.ErrUnregistered}} {
			tx := w.Begin(w.With(Current), w.Fenced)
			_, err := tx.Exec(`UPDATE d SET v = 'valid' WHERE id = 2`)
			w.Want("the valid write", err, nil)
			_, err = tx.ExecContext(w.With(c.token), update)
			w.Want("the refused write", err, c.want)
			w.Want("Commit", tx.Commit(), c.want)
			w.IsUntouched()
			w.Want("Ping", w.Fenced.Ping(), nil)
		}
	})
	t.Run("refused through rows", func(t *testing.T) {
		w := w.In(t)
		for _, unread := range []bool{true, false} {
			tx := w.Begin(w.With(Stale), w.Fenced)
			w.Must(&withoutToken{tx}, `UPDATE d SET v = 'unguarded' WHERE id = 2`)
			rows, err := tx.Query(w.returning(1))
			if err == nil && unread {
				err = rows.Close()
			} else if err == nil {
				for rows.Next() {
					t.Error("a row of a refused write")
				}
				err = rows.Err()
				rows.Close()
			}
			w.Want("Query", err, guard.ErrFenced)
			w.Want("Commit", tx.Commit(), guard.ErrFenced)
			w.IsUntouched()
		}
	})
	t.Run("begun by text", func(t *testing.T) {
		w := w.In(t)
		for _, end := range []string{`COMMIT`, `END`, `ROLLBACK`} {
			if end == `END` && e.Engine == sqlgen.MySQL {
				continue // it is no statement there
			}
			c := w.Conn(w.Fenced)
			w.Must(c, `BEGIN`)
			w.Must(c, `UPDATE d SET v = 'unguarded' WHERE id = 2`)
			_, err := c.ExecContext(stale(w), update)
			w.Want("the stale write", err, guard.ErrFenced)
			for _, text := range []string{`SELECT 1`, `UPDATE d SET v = 'later' WHERE id = 3`, `SAVEPOINT a`, `ROLLBACK TO a`, `BEGIN`} {
				_, err := c.ExecContext(t.Context(), text)
				w.Want(text, err, guard.ErrFenced)
			}
			_, err = c.BeginTx(t.Context(), nil)
			w.Want("BeginTx", err, guard.ErrFenced)
			want := guard.ErrFenced
			if end == `ROLLBACK` {
				want = nil
			}
			_, err = c.ExecContext(t.Context(), end)
			w.Want(end, err, want)
			w.IsUntouched()
			_, err = c.ExecContext(w.With(Current), `UPDATE d SET v = 'healthy' WHERE id = 3`)
			w.Want("afterwards", err, nil)
			w.Reset()
			w.Want("Close", c.Close(), nil)
		}
	})
	t.Run("begun by text, inheriting its token", func(t *testing.T) {
		w := w.In(t)
		c := w.Conn(w.Fenced)
		if _, err := c.ExecContext(stale(w), `BEGIN`); err != nil {
			t.Fatal(err)
		}
		_, err := c.ExecContext(t.Context(), update)
		w.Want("the stale write", err, guard.ErrFenced)
		w.Must(c, `ROLLBACK`)
		w.Must(c, `BEGIN`)
		_, err = c.ExecContext(t.Context(), update)
		w.Want("the next transaction has no token", err, nil)
		w.Must(c, `ROLLBACK`)
		w.Want("Close", c.Close(), nil)
		w.IsUntouched()
	})
	t.Run("the connection goes back healthy", func(t *testing.T) {
		w := w.In(t)
		w.Fenced.SetMaxOpenConns(1)
		defer w.Fenced.SetMaxOpenConns(0)
		for range 3 {
			tx := w.Begin(stale(w), w.Fenced)
			_, err := tx.Exec(update)
			w.Want("the stale write", err, guard.ErrFenced)
			w.Want("Rollback", tx.Rollback(), nil)
			_, err = w.Fenced.ExecContext(t.Context(), `UPDATE d SET v = v`)
			w.Want("the next user", err, nil)
		}
		w.IsUntouched()
	})
	t.Run("outside a transaction nothing is poisoned", func(t *testing.T) {
		w := w.In(t)
		c := w.Conn(w.Fenced)
		_, err := c.ExecContext(stale(w), update)
		w.Want("the stale write", err, guard.ErrFenced)
		_, err = c.ExecContext(t.Context(), `SELECT 1`)
		w.Want("the next statement", err, nil)
		w.Want("Close", c.Close(), nil)
	})
	t.Run("the context of the transaction ends", func(t *testing.T) {
		w := w.In(t)
		ctx, cancel := context.WithCancel(stale(w))
		tx := w.Begin(ctx, w.Fenced)
		_, err := tx.Exec(update)
		w.Want("the stale write", err, guard.ErrFenced)
		cancel()
		if err := tx.Commit(); err == nil {
			t.Error("Commit succeeded")
		}
		w.Want("Ping", w.Fenced.Ping(), nil)
		w.IsUntouched()
	})
}

// withoutToken executes without the token that the transaction has.
type withoutToken struct{ tx *sql.Tx }

// ExecContext executes as told.
func (e *withoutToken) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	return e.tx.ExecContext(guard.Without(ctx), text, args...)
}

// ExecutingContextDecides: SPEC G9.
func ExecutingContextDecides(t *testing.T, e Engine) {
	w := NewWorld(t, e)
	texts := []string{`UPDATE d SET v = $1 WHERE id = $2`, `UPDATE d SET v = $1 WHERE id = $2 RETURNING id`}
	if e.Lazy || e.Engine == sqlgen.MySQL {
		texts = texts[:1]
	}
	for _, text := range texts {
		for name, preparing := range map[string]context.Context{"nothing": t.Context(), "a stale token": w.With(Stale), "a valid token": w.With(Current)} {
			t.Run("prepared with "+name+": "+text, func(t *testing.T) {
				w := w.In(t)
				c := w.Conn(w.Fenced)
				s, err := c.PrepareContext(preparing, w.SQL(text))
				w.Want("Prepare", err, nil)
				for range 2 { // the second time, every variant is there
					for _, x := range []struct {
						ctx  context.Context
						want error
					}{
						{t.Context(), nil}, {w.With(Current), nil}, {w.With(Stale), guard.ErrFenced}, {w.With(Current, Other), nil},
						{w.With(Other, Stale), guard.ErrFenced}, {guard.Without(w.With(Stale)), nil}, {w.With(Current), nil}, {t.Context(), nil},
					} {
						w.Reset()
						_, err := s.ExecContext(x.ctx, "x", 1)
						w.Want(fmt.Sprint("Exec with ", guard.Tokens(x.ctx)), err, x.want)
						if (x.want == nil) != (w.Table() != Untouched) {
							t.Errorf("Exec with %v: the table reads %q", guard.Tokens(x.ctx), w.Table())
						}
						w.Reset()
						_, err = read(s.QueryContext(x.ctx, "x", 1))
						w.Want(fmt.Sprint("Query with ", guard.Tokens(x.ctx)), err, x.want)
						if (x.want == nil) != (w.Table() != Untouched) {
							t.Errorf("Query with %v: the table reads %q", guard.Tokens(x.ctx), w.Table())
						}
					}
				}
				w.Want("Close", s.Close(), nil)
				w.Want("Close", c.Close(), nil)
			})
		}
	}
	t.Run("a transaction lends its token", func(t *testing.T) {
		w := w.In(t)
		w.Reset()
		tx := w.Begin(w.With(Stale), w.Fenced)
		_, err := tx.ExecContext(w.With(Current), `UPDATE d SET v = 'own' WHERE id = 1`)
		w.Want("a token of the statement's own", err, nil)
		_, err = tx.ExecContext(guard.Without(t.Context()), `UPDATE d SET v = 'without' WHERE id = 2`)
		w.Want("Without", err, nil)
		_, err = tx.Exec(`UPDATE d SET v = 'inherited' WHERE id = 3`)
		w.Want("the transaction's", err, guard.ErrFenced)
		w.Want("Commit", tx.Commit(), guard.ErrFenced)
		w.IsUntouched()
		tx = w.Begin(t.Context(), w.Fenced)
		_, err = tx.Exec(`UPDATE d SET v = v`)
		w.Want("the next transaction has none", err, nil)
		w.Want("Commit", tx.Commit(), nil)
	})
}

// Policies: which writes need a token.
func Policies(t *testing.T, e Engine, open func(t *testing.T, w *World, p guard.Policy) *sql.DB) {
	w := NewWorld(t, e)
	w.Must(w.Bare, `CREATE TABLE free (id INTEGER PRIMARY KEY)`)
	policy := func(opts ...guard.PolicyOption) *sql.DB {
		p, err := guard.NewPolicy(opts...)
		if err != nil {
			t.Fatal(err)
		}
		return open(t, w, p)
	}
	t.Run("listed tables only", func(t *testing.T) {
		w := w.In(t)
		db := policy(guard.Tables("d"))
		_, err := db.ExecContext(w.With(Stale), map[bool]string{true: `INSERT INTO free VALUES ()`, false: `INSERT INTO free DEFAULT VALUES`}[e.Engine == sqlgen.MySQL])
		if e.Engine != sqlgen.SQLite {
			_, err = db.ExecContext(w.With(Stale), `INSERT INTO free VALUES (1)`)
		}
		w.Want("a table that is not listed", err, nil)
		_, err = db.ExecContext(w.With(Stale), `UPDATE d SET v = 'x'`)
		w.Want("a listed table", err, guard.ErrFenced)
		_, err = db.ExecContext(t.Context(), `UPDATE d SET v = v`)
		w.Want("a listed table without a token", err, nil)
		w.IsUntouched()
	})
	t.Run("required", func(t *testing.T) {
		w := w.In(t)
		db := policy(guard.Tables("d"), guard.Require())
		for name, err := range map[string]error{
			"Exec":  second(db.Exec(`UPDATE d SET v = 'x'`)),
			"Query": second(read(db.Query(w.plus(`UPDATE d SET v = 'x'`, ` RETURNING id`)))),
			"text":  second(db.Exec(`nonsense that cannot be understood`)),
		} {
			w.Want(name+" without a token", err, guard.ErrUnguarded)
		}
		s, err := db.Prepare(`UPDATE d SET v = 'x'`)
		w.Want("Prepare", err, nil)
		w.Want("Stmt.Exec without a token", second(s.Exec()), guard.ErrUnguarded)
		w.Want("Stmt.Exec with a stale token", second(s.ExecContext(w.With(Stale))), guard.ErrFenced)
		w.Want("Close", s.Close(), nil)
		w.IsUntouched()
		w.Want("read", second(db.Exec(`SELECT * FROM d`)), nil)
		w.Want("a table that is not listed", second(db.Exec(`INSERT INTO free VALUES (2)`)), nil)
		w.Want("a migration", second(db.Exec(`CREATE TABLE migrated (id INTEGER)`)), nil)
		w.Want("Without", second(db.ExecContext(guard.Without(t.Context()), `UPDATE d SET v = v`)), nil)
		w.Want("a valid token", second(db.ExecContext(w.With(Current), `UPDATE d SET v = v`)), nil)
		tx := w.Begin(w.With(Current), db)
		w.Want("inherited", second(tx.Exec(`UPDATE d SET v = v`)), nil)
		w.Want("Commit", tx.Commit(), nil)
		w.IsUntouched()
	})
}

// Bindings and Audit: policies that look at tables, tokens and callers.
func BindingsAndAudit(t *testing.T, e Engine, open func(t *testing.T, w *World, p guard.Policy) *sql.DB) {
	w := NewWorld(t, e)
	w.Must(w.Bare, `CREATE TABLE free (id INTEGER PRIMARY KEY)`)
	policy := func(opts ...guard.PolicyOption) *sql.DB {
		p, err := guard.NewPolicy(opts...)
		if err != nil {
			t.Fatal(err)
		}
		return open(t, w, p)
	}
	t.Run("a token for another resource does not count", func(t *testing.T) {
		w := w.In(t)
		db := policy(guard.BindPrefix("d", "job-"), guard.Bind("free", "other"))
		write := func(ctx context.Context, text string) error { return second(db.ExecContext(ctx, text)) }
		w.Want("its own", write(w.With(Current), `UPDATE d SET v = v`), nil)
		w.Want("its own and another", write(w.With(Current, Other), `UPDATE d SET v = v`), nil)
		w.Want("another's", write(w.With(Other), `UPDATE d SET v = 'x'`), guard.ErrUnguarded)
		w.Want("its own, stale", write(w.With(Stale, Other), `UPDATE d SET v = 'x'`), guard.ErrFenced)
		w.Want("the other way round", write(w.With(Current), `DELETE FROM free`), guard.ErrUnguarded)
		err := write(w.With(Other), `UPDATE d SET v = 'x'`)
		var unguarded *guard.UnguardedError
		if !errors.As(err, &unguarded) || len(unguarded.Bound) != 1 || unguarded.Bound[0] != `"job-"*` || !strings.Contains(err.Error(), `"job-"*`) {
			t.Errorf("error %v, want that it names what the table is bound to", err)
		}
		w.Want("bound to one", write(w.With(Other), `DELETE FROM free`), nil)
		w.Want("no token, not required", write(t.Context(), `UPDATE d SET v = v`), nil)
		tx := w.Begin(w.With(Other), db)
		w.Want("inherited from the transaction", second(tx.Exec(`UPDATE d SET v = 'x'`)), guard.ErrUnguarded)
		w.Want("Rollback", tx.Rollback(), nil)
		w.IsUntouched()
	})
	t.Run("audit", func(t *testing.T) {
		w := w.In(t)
		var reports []guard.Audited
		db := policy(guard.Tables("d"), guard.Require(), guard.Audit(func(a guard.Audited) { reports = append(reports, a) }))
		reported := func(what string, err, want error) {
			t.Helper()
			w.Want(what, err, nil)
			if len(reports) != 1 || !errors.Is(reports[0].Err, want) || want == nil && reports[0].Err != nil {
				t.Fatalf("%s: reports %+v, want one of %v", what, reports, want)
			}
			if f := reports[0].Stack[0]; !strings.Contains(f.Function, "drivertest.BindingsAndAudit") || f.Line == 0 {
				t.Errorf("%s: the caller is %s, want this test", what, f.Function)
			}
			reports = nil
		}
		reported("without a token", second(db.Exec(`UPDATE d SET v = v`)), guard.ErrUnguarded)
		reported("by Query", second(read(db.Query(w.plus(`UPDATE d SET v = v`, ` RETURNING id`)))), guard.ErrUnguarded)
		if len(e.Refused) > 0 {
			_, err := db.ExecContext(w.With(Current), e.Refused[0])
			reported(e.Refused[0], err, guard.ErrUnsupported)
			w.Reset()
			w.Want(e.Refused[0]+", stale", second(db.ExecContext(w.With(Stale), e.Refused[0])), guard.ErrFenced)
			w.Want(e.Refused[0]+", stale, by Query", second(read(db.QueryContext(w.With(Stale), e.Refused[0]))), guard.ErrFenced)
			tx := w.Begin(w.With(Stale), db)
			w.Want(e.Refused[0]+", in a transaction", second(tx.Exec(e.Refused[0])), guard.ErrFenced)
			w.Want("Commit", tx.Commit(), guard.ErrFenced)
			w.IsUntouched()
		}
		w.Want("a stale token", second(db.ExecContext(w.With(Stale), `UPDATE d SET v = 'x'`)), guard.ErrFenced)
		w.Want("a valid token", second(db.ExecContext(w.With(Current), `UPDATE d SET v = v`)), nil)
		w.Want("another table", second(db.Exec(`DELETE FROM free`)), nil)
		w.Want("a read", second(read(db.Query(`SELECT v FROM d`))), nil)
		w.Want("a definition", second(db.Exec(`CREATE TABLE audited (id INTEGER)`)), nil)
		w.Want("Without", second(db.ExecContext(guard.Without(t.Context()), `UPDATE d SET v = v`)), nil)
		if len(reports) != 0 {
			t.Errorf("reports %+v, want none", reports)
		}
		w.IsUntouched()
		db = policy(guard.Audit(func(a guard.Audited) { reports = append(reports, a) }))
		reported("allowed", second(db.Exec(`UPDATE d SET v = v`)), nil)
		db = policy(guard.Bind("d", "other"), guard.Audit(func(a guard.Audited) { reports = append(reports, a) }))
		reported("another's token", second(db.ExecContext(w.With(Current), `UPDATE d SET v = v`)), guard.ErrUnguarded)
		w.Want("another's token, stale", second(db.ExecContext(w.With(Stale), `UPDATE d SET v = 'x'`)), guard.ErrFenced)
		w.IsUntouched()
	})
	t.Run("observe", func(t *testing.T) {
		w := w.In(t)
		db := policy(guard.Observe())
		token := func(epoch int64) context.Context {
			return w.With(guard.Token{Resource: "observed", Epoch: epoch, Grant: epoch})
		}
		update := `UPDATE d SET v = v`
		for range 2 {
			w.Want("never seen", second(db.ExecContext(token(5), update)), nil)
		}
		w.Want("older", second(db.ExecContext(token(4), update)), guard.ErrFenced)
		tx := w.Begin(token(6), db)
		w.Want("higher, in a transaction", second(tx.Exec(update)), nil)
		w.Want("Commit", tx.Commit(), nil)
		w.Want("outdone", second(db.ExecContext(token(5), update)), guard.ErrFenced)
		w.Want("still the highest", second(db.ExecContext(token(6), update)), nil)
		tx = w.Begin(token(7), db)
		w.Want("higher, in a transaction that rolls back", second(tx.Exec(update)), nil)
		w.Want("Rollback", tx.Rollback(), nil)
		w.Want("once more", second(db.ExecContext(token(7), update)), nil)
		w.Want("another grant", second(db.ExecContext(w.With(guard.Token{Resource: "observed", Epoch: 7, Grant: 1}), update)), guard.ErrFenced)
		w.IsUntouched()
	})
}

func second[T any](_ T, err error) error { return err }

// NotSetUp: a database without the schema is a SetupError that says what to do,
// and the write is not done.
func NotSetUp(t *testing.T, w *World, fenced *sql.DB) {
	w.Must(w.Bare, `CREATE TABLE d (id INTEGER PRIMARY KEY, v TEXT, n INTEGER NOT NULL DEFAULT 0)`)
	w.Reset()
	check := func(road string, err error) {
		t.Helper()
		var s *guard.SetupError
		if !errors.As(err, &s) || s.Remedy == "" {
			t.Errorf("%s: got error %v, want a SetupError with a remedy", road, err)
		}
		w.IsUntouched()
	}
	ctx := w.With(Current)
	check("Exec", second(fenced.ExecContext(ctx, `UPDATE d SET v = 'x'`)))
	check("Query", second(read(fenced.QueryContext(ctx, w.plus(`UPDATE d SET v = 'x'`, ` RETURNING id`)))))
	tx := w.Begin(ctx, fenced)
	check("Tx.Exec", second(tx.Exec(`UPDATE d SET v = 'x'`)))
	w.Want("Rollback", tx.Rollback(), nil)
	w.Want("without a token", second(fenced.Exec(`UPDATE d SET v = v`)), nil)
	if err := guard.Migrate(t.Context(), w.Bare, w.Engine.Engine); err != nil {
		t.Fatal(err)
	}
	w.Want("Advance", guard.NewFence(w.Bare, w.Engine.Engine).Advance(t.Context(), Current), nil)
	w.Want("after Migrate", second(fenced.ExecContext(ctx, `UPDATE d SET v = v`)), nil)
}

// Race executes guarded and unguarded statements from many goroutines, while
// the mark moves. Under -race it shows that connections share nothing unsafely;
// and no stale write lands.
func Race(t *testing.T, e Engine) {
	w := NewWorld(t, e)
	w.Fenced.SetMaxOpenConns(16)
	fence := guard.NewFence(w.Fenced, e.Engine)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			resource := fmt.Sprintf("race-%d", g%4)
			for i := range 8 {
				token := guard.Token{Resource: resource, Epoch: int64(i + 1), Grant: int64(g + 1)}
				ctx := w.With(token)
				if err := fence.Advance(ctx, token); err != nil && !errors.Is(err, guard.ErrFenced) {
					t.Errorf("Advance: %v", err)
					return
				}
				err := second(w.Fenced.ExecContext(ctx, w.SQL(`UPDATE d SET n = n + 1 WHERE id = $1`), g%3+1))
				if err != nil && !errors.Is(err, guard.ErrFenced) {
					t.Errorf("Exec: %v", err)
					return
				}
				tx, err := w.Fenced.BeginTx(ctx, nil)
				if err != nil {
					t.Errorf("BeginTx: %v", err)
					return
				}
				if g%2 == 0 {
					err = second(tx.Exec(w.SQL(`UPDATE d SET n = n + 1 WHERE id = $1`), g%3+1))
				} else {
					err = second(read(tx.Query(w.plus(w.SQL(`UPDATE d SET n = n + 1 WHERE id = $1`), ` RETURNING n`), g%3+1)))
				}
				commitErr := tx.Commit()
				if err != nil && !errors.Is(err, guard.ErrFenced) {
					t.Errorf("Tx.Exec: %v", err)
					return
				}
				if errors.Is(err, guard.ErrFenced) != errors.Is(commitErr, guard.ErrFenced) {
					t.Errorf("Exec said %v, Commit %v", err, commitErr)
				}
				if err := second(read(w.Fenced.Query(`SELECT n FROM d`))); err != nil {
					t.Errorf("Query: %v", err)
					return
				}
			}
		}()
	}
	wg.Wait()
}
