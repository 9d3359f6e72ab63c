// Package drivertest holds the tests that every engine's driver has to pass, on
// a real database.
package drivertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// Engine is what differs between the engines.
type Engine struct {
	Engine sqlgen.Engine
	// New returns a fresh database with the schema of sqlfence, opened behind
	// the fence and bare.
	New func(t *testing.T) (fenced, bare *sql.DB)
	// Server is the data source name that New was given, where a test opens the
	// database of a world in other ways.
	Server string
	// Refused are texts that cannot be guarded.
	Refused []string
	// Lazy: a prepared statement that returns rows is not executed to its end by
	// Exec, nor at all by Query until rows are read (mattn/go-sqlite3).
	Lazy bool
	// NoReturning: writes return no rows (MySQL, unlike MariaDB).
	NoReturning bool
}

// Tokens of one resource: only Current is valid.
var (
	Current = guard.Token{Resource: "job-42", Epoch: 7, Grant: 70}
	Stale   = guard.Token{Resource: "job-42", Epoch: 6, Grant: 60}
	Rival   = guard.Token{Resource: "job-42", Epoch: 7, Grant: 71}
	Unknown = guard.Token{Resource: "job-42", Epoch: 8, Grant: 80}
	Other   = guard.Token{Resource: "other", Epoch: 3, Grant: 30}
)

// World is one database under test, with the table d and the marks of Current
// and Other.
type World struct {
	T      *testing.T
	Engine Engine
	Fenced *sql.DB
	Bare   *sql.DB
}

// NewWorld makes one.
func NewWorld(t *testing.T, e Engine) *World {
	t.Helper()
	fenced, bare := e.New(t)
	w := &World{T: t, Engine: e, Fenced: fenced, Bare: bare}
	w.Must(bare, `CREATE TABLE d (id INTEGER PRIMARY KEY, v TEXT, n INTEGER NOT NULL DEFAULT 0)`)
	fence := guard.NewFence(bare, e.Engine)
	for _, token := range []guard.Token{Current, Other} {
		if err := fence.Advance(t.Context(), token); err != nil {
			t.Fatalf("Advance(%s): %v", token, err)
		}
	}
	w.Reset()
	return w
}

// In returns the world for a subtest.
func (w *World) In(t *testing.T) *World {
	sub := *w
	sub.T = t
	return &sub
}

// SQL writes the text's $1 as the engine's own placeholders.
func (w *World) SQL(text string) string {
	switch w.Engine.Engine {
	case sqlgen.SQLite:
		return strings.ReplaceAll(text, "$", "?")
	case sqlgen.MySQL:
		return numbered.ReplaceAllString(text, "?")
	}
	return text
}

var numbered = regexp.MustCompile(`\$[0-9]`)

// Must executes a text that has to succeed.
func (w *World) Must(db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, text string, args ...any) {
	w.T.Helper()
	if _, err := db.ExecContext(context.Background(), w.SQL(text), args...); err != nil {
		w.T.Fatalf("%s: %v", text, err)
	}
}

// Reset brings d back to its three rows.
func (w *World) Reset() { w.T.Helper(); w.resetOn(w.Bare) }

func (w *World) resetOn(db *sql.DB) {
	w.T.Helper()
	w.Must(db, `DELETE FROM d`)
	w.Must(db, `INSERT INTO d (id, v, n) VALUES (1, 'one', 10), (2, 'two', 20), (3, 'three', 30)`)
}

// Untouched is what Table returns after Reset.
const Untouched = "1 one 10|2 two 20|3 three 30"

// Table returns the rows of d.
func (w *World) Table() string {
	w.T.Helper()
	rows, err := w.Bare.Query(`SELECT id, v, n FROM d ORDER BY id`)
	if err != nil {
		w.T.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var id, n int64
		var v sql.NullString
		if err := rows.Scan(&id, &v, &n); err != nil {
			w.T.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%d %s %d", id, v.String, n))
	}
	if err := rows.Err(); err != nil {
		w.T.Fatal(err)
	}
	return strings.Join(all, "|")
}

// IsUntouched fails the test unless d is as Reset left it.
func (w *World) IsUntouched() {
	w.T.Helper()
	if got := w.Table(); got != Untouched {
		w.T.Errorf("the table reads %q, want it untouched", got)
	}
}

// With returns a context with tokens.
func (w *World) With(tokens ...guard.Token) context.Context {
	return guard.With(w.T.Context(), tokens...)
}

// Want fails the test unless err matches target; nil is no error.
func (w *World) Want(what string, err, target error) {
	w.T.Helper()
	if target == nil && err != nil || target != nil && !errors.Is(err, target) {
		w.T.Errorf("%s: got error %v, want %v", what, err, target)
	}
}

// Conn returns one connection of db.
func (w *World) Conn(db *sql.DB) *sql.Conn {
	w.T.Helper()
	c, err := db.Conn(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = c.Close() })
	return c
}

// Begin begins a transaction that ends with the test at the latest.
func (w *World) Begin(ctx context.Context, db *sql.DB) *sql.Tx {
	w.T.Helper()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// kind is a write that can be guarded.
type kind struct {
	name      string
	text      string
	args      []any
	returning bool // yields rows
	none      bool // touches no row
	few       bool // enough on a few roads
}

var kinds = []kind{
	{name: "update", text: `UPDATE d SET v = $1 WHERE id = $2`, args: []any{"x", 1}},
	{name: "update without WHERE", text: `UPDATE d SET n = n + 1`},
	{name: "update with OR (D21)", text: `UPDATE d SET v = 'x' WHERE id = 1 OR id = 2`},
	{name: "update with a last comment (D22)", text: "UPDATE d SET v = 'x' WHERE id = 1 -- note"},
	{name: "update with first comments (D22)", text: "/* a */ -- b\n UPDATE d SET v = 'x' WHERE id = 1;"},
	{name: "update from", text: `UPDATE d SET v = u.s FROM (SELECT 2 AS id, 'two!' AS s) u WHERE d.id = u.id`},
	{name: "update with placeholders out of order (D27)", text: `UPDATE d SET v = $2 WHERE id = $1`, args: []any{2, "y"}},
	{name: "update with CTE", text: `WITH x AS (SELECT 1 AS id) UPDATE d SET v = 'cte' WHERE id IN (SELECT id FROM x)`},
	{name: "update of nothing", text: `UPDATE d SET v = 'x' WHERE id = 999`, none: true},
	{name: "update, constant false", text: `UPDATE d SET v = 'x' WHERE 1 = 0`, none: true},
	{name: "update, IN (NULL)", text: `UPDATE d SET v = 'x' WHERE id IN (NULL)`, none: true},
	{name: "update returning", text: `UPDATE d SET v = $1 WHERE id = $2 RETURNING id, v`, args: []any{"r", 3}, returning: true},
	{name: "update of nothing returning", text: `UPDATE d SET v = $1 WHERE id = 999 RETURNING id, v`, args: []any{"r"}, returning: true, none: true},
	{name: "delete", text: `DELETE FROM d WHERE id = $1`, args: []any{1}},
	{name: "delete of everything", text: `DELETE FROM d`},
	{name: "delete returning", text: `DELETE FROM d WHERE NOT id < 3 OR id = 3 RETURNING id, v`, returning: true},
	{name: "insert", text: `INSERT INTO d (id, v) VALUES ($1, $2)`, args: []any{4, "four"}},
	{name: "insert rows", text: `INSERT INTO d (id, v) VALUES (4, NULL), (5, $1)`, args: []any{"five"}},
	{name: "insert from select", text: `INSERT INTO d (id, v) SELECT id + 10, v FROM d`},
	{name: "insert from an empty select", text: `INSERT INTO d (id, v) SELECT id, v FROM d WHERE id < 0`, none: true},
	{name: "insert returning", text: `INSERT INTO d (id, v) VALUES ($1, $2) RETURNING id, v`, args: []any{4, "four"}, returning: true},
	{name: "upsert, insert branch (D25)", text: `INSERT INTO d (id, v) VALUES (4, 'four') ON CONFLICT (id) DO UPDATE SET v = excluded.v`},
	{name: "upsert, update branch (D25)", text: `INSERT INTO d (id, v) VALUES (1, 'neu') ON CONFLICT (id) DO UPDATE SET v = excluded.v`},
	{name: "upsert that does nothing (D25)", text: `INSERT INTO d (id, v) VALUES (1, 'neu') ON CONFLICT (id) DO NOTHING`, none: true},
}

// kindsOf returns the kinds of writes of the engine.
func kindsOf(e Engine) []kind {
	if e.Engine != sqlgen.MySQL {
		return kinds
	}
	all := mysqlKinds
	if e.NoReturning {
		all = append(slices.Clone(all), mysqlOnlyKinds...)
		all = slices.DeleteFunc(all, func(k kind) bool { return k.returning })
	}
	return all
}

// returning is a write of a row that returns its id, where writes return any.
func (w *World) returning(id int) string {
	if w.Engine.NoReturning {
		return fmt.Sprintf(`DELETE FROM d WHERE id = %d`, id)
	}
	if w.Engine.Engine == sqlgen.MySQL {
		return fmt.Sprintf(`DELETE FROM d WHERE id = %d RETURNING id`, id)
	}
	return fmt.Sprintf(`UPDATE d SET v = 'x' WHERE id = %d RETURNING id`, id)
}

// plus adds a clause of RETURNING to an UPDATE, where there is such a thing.
func (w *World) plus(update, clause string) string {
	if w.Engine.Engine == sqlgen.MySQL {
		return update
	}
	return update + clause
}

// outcome is what a program sees of a statement, and what the statement does.
type outcome struct {
	rows     string
	affected int64
	lastID   int64
	err      string
	table    string
}

// road is a way from a program to the database.
type road struct {
	name  string
	query bool // through rows
	run   func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error)
}

func executed(res sql.Result, err error) (outcome, error) {
	var o outcome
	if err == nil {
		o.affected, err = res.RowsAffected()
	}
	if err == nil {
		if id, err := res.LastInsertId(); err != nil {
			o.err = err.Error()
		} else {
			o.lastID = id
		}
	}
	return o, err
}

func read(rows *sql.Rows, err error) (outcome, error) {
	var o outcome
	if err != nil {
		return o, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return o, err
	}
	types, err := rows.ColumnTypes()
	if err != nil {
		return o, err
	}
	for _, t := range types {
		length, hasLength := t.Length()
		nullable, hasNullable := t.Nullable()
		precision, scale, hasPrecision := t.DecimalSize()
		o.rows += fmt.Sprint(t.Name(), t.DatabaseTypeName(), t.ScanType(), length, hasLength, nullable, hasNullable, precision, scale, hasPrecision, ";")
	}
	for rows.Next() {
		values := make([]any, len(columns))
		pointers := make([]any, len(columns))
		for i := range values {
			pointers[i] = &values[i]
		}
		if err := rows.Scan(pointers...); err != nil {
			return o, err
		}
		o.rows += fmt.Sprintf("%#v;", values)
	}
	return o, rows.Err()
}

var roads = []road{
	{name: "DB.Exec", run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		return executed(db.ExecContext(ctx, w.SQL(k.text), k.args...))
	}},
	{name: "DB.Query", query: true, run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		return read(db.QueryContext(ctx, w.SQL(k.text), k.args...))
	}},
	{name: "DB.Prepare Exec", run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		s, err := db.PrepareContext(context.Background(), w.SQL(k.text))
		if err != nil {
			return outcome{}, err
		}
		defer s.Close()
		return executed(s.ExecContext(ctx, k.args...))
	}},
	{name: "DB.Prepare Query", query: true, run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		s, err := db.PrepareContext(context.Background(), w.SQL(k.text))
		if err != nil {
			return outcome{}, err
		}
		defer s.Close()
		return read(s.QueryContext(ctx, k.args...))
	}},
	{name: "Tx.Exec", run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		return inTx(db, ctx, func(tx *sql.Tx) (outcome, error) { return executed(tx.ExecContext(ctx, w.SQL(k.text), k.args...)) })
	}},
	{name: "Tx.Exec, inheriting", run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		return inTx(db, ctx, func(tx *sql.Tx) (outcome, error) { return executed(tx.Exec(w.SQL(k.text), k.args...)) })
	}},
	{name: "Tx.Query", query: true, run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		return inTx(db, ctx, func(tx *sql.Tx) (outcome, error) { return read(tx.QueryContext(ctx, w.SQL(k.text), k.args...)) })
	}},
	{name: "Tx.Stmt Exec", run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		s, err := db.PrepareContext(context.Background(), w.SQL(k.text))
		if err != nil {
			return outcome{}, err
		}
		defer s.Close()
		return inTx(db, ctx, func(tx *sql.Tx) (outcome, error) {
			return executed(tx.StmtContext(ctx, s).ExecContext(ctx, k.args...))
		})
	}},
	{name: "Conn.Exec", run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		c, err := db.Conn(context.Background())
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		return executed(c.ExecContext(ctx, w.SQL(k.text), k.args...))
	}},
	{name: "DB.QueryRow", query: true, run: func(w *World, db *sql.DB, ctx context.Context, k kind) (outcome, error) {
		if !k.returning {
			return read(db.QueryContext(ctx, w.SQL(k.text), k.args...))
		}
		var id int64
		var v sql.NullString
		err := db.QueryRowContext(ctx, w.SQL(k.text), k.args...).Scan(&id, &v)
		return outcome{rows: fmt.Sprint(id, v)}, err
	}},
}

// inTx also commits after an error, as careless programs do.
func inTx(db *sql.DB, ctx context.Context, f func(*sql.Tx) (outcome, error)) (outcome, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return outcome{}, err
	}
	defer tx.Rollback()
	o, err := f(tx)
	if commitErr := tx.Commit(); err == nil {
		err = commitErr
	} else if errors.Is(err, guard.ErrFenced) && !errors.Is(commitErr, guard.ErrFenced) {
		err = fmt.Errorf("after a refusal, Commit returned %v", commitErr)
	}
	return o, err
}

// EveryKind executes every kind of write on every road: bare, with a valid token
// (the same is seen, SPEC G5), with two of them, and with tokens that do not
// pass (refused, and nothing is written, SPEC G1 and G6).
func EveryKind(t *testing.T, e Engine) {
	w := NewWorld(t, e)
	// One connection each, as SQLite keeps the last insert ID by connection.
	w.Fenced.SetMaxOpenConns(1)
	w.Bare.SetMaxOpenConns(1)
	if e.NoReturning { // for mysqlOnlyKinds
		w.Must(w.Bare, `CREATE TABLE more (id INT PRIMARY KEY, v TEXT, n INT)`)
		w.Must(w.Bare, `INSERT INTO more VALUES (7, 'seven', 70), (8, NULL, 80)`)
	}
	for _, r := range roads {
		t.Run(r.name, func(t *testing.T) {
			for _, k := range kindsOf(e) {
				if k.returning && !r.query {
					continue // below, in ExecReturning
				}
				if k.few && r.name != "DB.Exec" && r.name != "DB.Prepare Query" && r.name != "Tx.Exec, inheriting" {
					continue
				}
				w := w.In(t)
				run := func(db *sql.DB, ctx context.Context) (outcome, error) {
					w.resetOn(db)
					o, err := r.run(w, db, ctx, k)
					o.table = w.Table()
					return o, err
				}
				bare, bareErr := run(w.Bare, t.Context())
				if k.none != (bare.table == Untouched) {
					t.Fatalf("%s: the bare driver made it %q (%v)", k.name, bare.table, bareErr)
				}
				for _, c := range []struct {
					name string
					ctx  context.Context
				}{
					{"no token", t.Context()},
					{"a valid token", w.With(Current)},
					{"two valid tokens", w.With(Current, Other)},
				} {
					got, err := run(w.Fenced, c.ctx)
					if fmt.Sprint(err) != fmt.Sprint(bareErr) || reflect.TypeOf(err) != reflect.TypeOf(bareErr) {
						t.Errorf("%s, %s: error %v, bare %v", k.name, c.name, err, bareErr)
					}
					if got != bare {
						t.Errorf("%s, %s:\n got %+v\nbare %+v", k.name, c.name, got, bare)
					}
				}
				for _, c := range []struct {
					name   string
					tokens []guard.Token
					want   error
				}{
					{"stale", []guard.Token{Stale}, guard.ErrFenced},
					{"another grant (G13)", []guard.Token{Rival}, guard.ErrFenced},
					{"never registered", []guard.Token{Unknown}, guard.ErrUnregistered},
					{"a valid and a stale one", []guard.Token{Other, Stale}, guard.ErrFenced},
				} {
					_, err := run(w.Fenced, w.With(c.tokens...))
					w.Want(k.name+", "+c.name, err, c.want)
					if errors.Is(err, guard.ErrFenced) != errors.Is(err, guard.ErrLost) {
						t.Errorf("%s, %s: %v is fenced, but not lost", k.name, c.name, err)
					}
					w.IsUntouched()
				}
			}
		})
	}
	t.Run("Exec of a statement with RETURNING", func(t *testing.T) {
		w := w.In(t)
		for _, k := range kindsOf(e) {
			if !k.returning {
				continue
			}
			w.resetOn(w.Bare)
			bare, bareErr := executed(w.Bare.ExecContext(t.Context(), w.SQL(k.text), k.args...))
			bare.table = w.Table()
			w.resetOn(w.Fenced)
			got, err := executed(w.Fenced.ExecContext(w.With(Current), w.SQL(k.text), k.args...))
			got.table = w.Table()
			if got != bare || fmt.Sprint(err) != fmt.Sprint(bareErr) {
				t.Errorf("%s: got %+v, %v; bare %+v, %v", k.name, got, err, bare, bareErr)
			}
			w.Reset()
			_, err = w.Fenced.ExecContext(w.With(Stale), w.SQL(k.text), k.args...)
			w.Want(k.name, err, guard.ErrFenced)
			w.IsUntouched()
		}
	})
	t.Run("rows closed unread", func(t *testing.T) {
		w := w.In(t)
		for _, k := range kindsOf(e) {
			if !k.returning {
				continue
			}
			w.Reset()
			rows, err := w.Fenced.QueryContext(w.With(Current), w.SQL(k.text), k.args...)
			if err == nil {
				err = rows.Close()
			}
			w.Want(k.name+", valid", err, nil)
			if k.none != (w.Table() == Untouched) {
				t.Errorf("%s: unread, the table reads %q", k.name, w.Table())
			}
			w.Reset()
			rows, err = w.Fenced.QueryContext(w.With(Stale), w.SQL(k.text), k.args...)
			if err == nil {
				err = rows.Close()
			}
			w.Want(k.name+", stale", err, guard.ErrFenced)
			w.IsUntouched()
		}
	})
	if e.NoReturning {
		return
	}
	t.Run("QueryRow of a stale token is not ErrNoRows", func(t *testing.T) {
		w := w.In(t)
		w.Reset()
		var id int
		ctx := w.With(Stale)
		err := w.Fenced.QueryRowContext(ctx, w.returning(1)).Scan(&id)
		w.Want("stale", err, guard.ErrFenced)
		if errors.Is(err, sql.ErrNoRows) {
			t.Errorf("a refusal is %v", err)
		}
		err = w.Fenced.QueryRowContext(w.With(Current), w.returning(999)).Scan(&id)
		w.Want("valid, no row", err, sql.ErrNoRows)
	})
}
