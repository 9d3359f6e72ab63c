package drivertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
)

// Statement is one that the comparison executes on every road.
type Statement struct {
	Text string
	Args []any
	// Unguarded: it is not executed under a token, which would refuse it.
	Unguarded bool
	// Query: it is executed by Query only, because the bare driver fails at Exec.
	Query bool
}

// Comparison is what a driver is put through, bare and behind the fence. All that
// a program can see must be the same (SPEC G5).
type Comparison struct {
	// Setup makes tables besides d, once.
	Setup []string
	// Statements are executed on every road.
	Statements []Statement
	// Roads limits the roads by name; nil is all.
	Roads []string
	// Stories are sequences of the engine's own.
	Stories map[string]func(p *Program)
	// Single: one connection each, because results tell of what it did before.
	Single bool
	// Brief leaves out the stories, and all contexts but one with a token.
	Brief bool
	// Same brings what may differ, in the notes of a run, to one form.
	Same func(note string) string
}

// Program runs against a database and notes all that it can see.
type Program struct {
	Context context.Context // carries the token, if there is one
	DB      *sql.DB
	SQL     func(string) string // as World.SQL
	notes   []string
	single  bool
	// anyOrder: the rows of a result may come in any order.
	anyOrder bool
}

// Note adds to what was seen.
func (p *Program) Note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// Queryer is what a program sends statements to.
type Queryer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}

// Error notes an error with the types of its chain: ORMs look at them.
func (p *Program) Error(what string, err error) {
	if err == nil {
		return
	}
	var chain []string
	for e := err; e != nil; e = errors.Unwrap(e) {
		chain = append(chain, reflect.TypeOf(e).String())
	}
	p.Note("%s: error %v, of %s, at %q", what, err, strings.Join(chain, " over "), place(err))
}

// place returns where in the text the server has found the error, if the driver tells.
func place(err error) string {
	var server interface {
		error
		SQLState() string
	}
	if !errors.As(err, &server) {
		return ""
	}
	told := ""
	v := reflect.Indirect(reflect.ValueOf(server))
	if f := v.FieldByName("Position"); f.IsValid() {
		told = fmt.Sprint(f.Interface())
	}
	if detailed, ok := server.(interface{ ErrorWithDetail() string }); ok { // lib/pq shows the lines
		_, lines, _ := strings.Cut(detailed.ErrorWithDetail(), "\nCONTEXT: line ")
		told += " " + lines
	}
	return told
}

// Result notes a result.
func (p *Program) Result(res sql.Result, err error) {
	p.Error("exec", err)
	if err != nil {
		return
	}
	defer func() { // modernc.org/sqlite gives no result for an empty text
		if v := recover(); v != nil {
			p.Note("panic: %v", v)
		}
	}()
	n, err := res.RowsAffected()
	p.Note("%d rows affected", n)
	p.Error("RowsAffected", err)
	id, err := res.LastInsertId()
	p.Note("last insert id %d", id)
	p.Error("LastInsertId", err)
}

// Rows notes all result sets with their columns.
func (p *Program) Rows(rows *sql.Rows, err error) {
	p.Error("query", err)
	if err != nil {
		return
	}
	defer func() { p.Error("Close", rows.Close()) }()
	for {
		columns, err := rows.Columns()
		p.Note("columns %q", columns)
		p.Error("Columns", err)
		types, err := rows.ColumnTypes()
		p.Error("ColumnTypes", err)
		for _, c := range types {
			length, hasLength := c.Length()
			nullable, hasNullable := c.Nullable()
			precision, scale, hasDecimal := c.DecimalSize()
			p.Note("column %s: %s, %v, length %d %v, nullable %v %v, decimal %d %d %v", c.Name(), c.DatabaseTypeName(), c.ScanType(),
				length, hasLength, nullable, hasNullable, precision, scale, hasDecimal)
		}
		var all []string
		for rows.Next() {
			values := make([]any, len(columns))
			pointers := make([]any, len(columns))
			for i := range values {
				pointers[i] = &values[i]
			}
			p.Error("Scan", rows.Scan(pointers...))
			var row []string
			for _, v := range values {
				row = append(row, fmt.Sprintf("%T %#v", v, plain(v)))
			}
			all = append(all, strings.Join(row, "\n"))
		}
		if p.anyOrder {
			slices.Sort(all)
		}
		p.notes = append(p.notes, all...)
		p.Error("Rows.Err", rows.Err())
		if !rows.NextResultSet() {
			break
		}
		p.Note("a further result set")
	}
	p.Error("Rows.Err at the end", rows.Err())
}

// plain makes a value print the same each time.
func plain(v any) any {
	if t, ok := v.(time.Time); ok {
		return t.Format(time.RFC3339Nano)
	}
	return v
}

// within runs f in a transaction that commits.
func (p *Program) within(opts *sql.TxOptions, f func(tx *sql.Tx)) {
	tx, err := p.DB.BeginTx(p.Context, opts)
	p.Error("BeginTx", err)
	if err != nil {
		return
	}
	f(tx)
	p.Error("Commit", tx.Commit())
	p.Error("Rollback after Commit", tx.Rollback())
}

// prepared runs f with a prepared statement.
func (p *Program) prepared(q Queryer, text string, f func(s *sql.Stmt)) {
	s, err := q.PrepareContext(context.Background(), text)
	p.Error("Prepare", err)
	if err != nil {
		return
	}
	f(s)
	p.Error("Stmt.Close", s.Close())
}

// ways are the roads from a program to the database.
var ways = []struct {
	name string
	run  func(p *Program, text string, args []any)
}{
	{"DB.Exec", func(p *Program, text string, args []any) { p.Result(p.DB.ExecContext(p.Context, text, args...)) }},
	{"DB.Query", func(p *Program, text string, args []any) { p.Rows(p.DB.QueryContext(p.Context, text, args...)) }},
	{"DB.QueryRow", func(p *Program, text string, args []any) {
		var v any
		p.Error("QueryRow", p.DB.QueryRowContext(p.Context, text, args...).Scan(&v))
		p.Note("%#v", plain(v))
	}},
	{"Stmt.Exec", func(p *Program, text string, args []any) {
		p.prepared(p.DB, text, func(s *sql.Stmt) { p.Result(s.ExecContext(p.Context, args...)) })
	}},
	{"Stmt.Query, twice", func(p *Program, text string, args []any) {
		p.prepared(p.DB, text, func(s *sql.Stmt) {
			p.Rows(s.QueryContext(p.Context, args...))
			p.Rows(s.QueryContext(p.Context, args...))
		})
	}},
	{"Tx.Exec", func(p *Program, text string, args []any) {
		p.within(nil, func(tx *sql.Tx) { p.Result(tx.ExecContext(p.Context, text, args...)) })
	}},
	{"Tx.Query", func(p *Program, text string, args []any) {
		p.within(nil, func(tx *sql.Tx) { p.Rows(tx.Query(text, args...)) })
	}},
	{"Tx.Prepare", func(p *Program, text string, args []any) {
		p.within(nil, func(tx *sql.Tx) {
			p.prepared(tx, text, func(s *sql.Stmt) { p.Result(s.Exec(args...)) })
		})
	}},
	{"Tx.Stmt", func(p *Program, text string, args []any) {
		p.prepared(p.DB, text, func(s *sql.Stmt) {
			p.within(nil, func(tx *sql.Tx) { p.Rows(tx.Stmt(s).Query(args...)) })
			// Prepared once more, on another connection.
			p.within(nil, func(tx *sql.Tx) {
				if !p.single {
					p.within(nil, func(other *sql.Tx) { p.Error("Ping", p.DB.PingContext(p.Context)) })
				}
				p.Result(tx.StmtContext(p.Context, s).ExecContext(p.Context, args...))
			})
		})
	}},
	{"Conn", func(p *Program, text string, args []any) {
		c, err := p.DB.Conn(p.Context)
		p.Error("Conn", err)
		if err != nil {
			return
		}
		defer func() { p.Error("Conn.Close", c.Close()) }()
		p.Result(c.ExecContext(p.Context, text, args...))
		p.Rows(c.QueryContext(p.Context, text, args...))
	}},
	{"unread", func(p *Program, text string, args []any) {
		rows, err := p.DB.QueryContext(p.Context, text, args...)
		p.Error("query", err)
		if err == nil {
			p.Error("Close", rows.Close())
			p.Error("Err", rows.Err())
		}
	}},
	{"an ended context", func(p *Program, text string, args []any) {
		ctx, cancel := context.WithCancel(p.Context)
		cancel()
		p.Result(p.DB.ExecContext(ctx, text, args...))
		p.Rows(p.DB.QueryContext(ctx, text, args...))
	}},
}

// Compare puts the driver through the comparison: bare, behind the fence, and
// behind it under a valid token.
func Compare(t *testing.T, w *World, c Comparison) {
	if c.Single {
		w.Fenced.SetMaxOpenConns(1)
		w.Bare.SetMaxOpenConns(1)
	}
	for _, text := range c.Setup {
		if _, err := w.Bare.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if c.Same == nil {
		c.Same = func(note string) string { return note }
	}
	operations, differences := 0, 0
	compare := func(name string, unguarded bool, f func(p *Program)) {
		operations++
		// The order of rows that no ORDER BY puts in one is the order on disk.
		anyOrder := strings.Contains(name, "RETURNING") && !strings.Contains(name, "ORDER BY")
		run := func(db *sql.DB, ctx context.Context) string {
			w.resetOn(db)
			p := &Program{Context: ctx, DB: db, SQL: w.SQL, single: c.Single, anyOrder: anyOrder}
			f(p)
			p.Note("the table: %s", w.Table())
			for i, n := range p.notes {
				p.notes[i] = c.Same(n)
			}
			return strings.Join(p.notes, "\n")
		}
		bare := run(w.Bare, t.Context())
		contexts := map[string]context.Context{"no token": t.Context()}
		if !unguarded {
			contexts["a token"] = w.With(Current)
		}
		switch {
		case c.Brief && !unguarded:
			delete(contexts, "no token")
		case !c.Brief && strings.HasPrefix(name, "DB."):
			contexts["without"] = guard.Without(w.With(Stale))
			if !unguarded {
				contexts["two tokens"] = w.With(Current, Other)
			}
		}
		for under, ctx := range contexts {
			if got := run(w.Fenced, ctx); got != bare {
				differences++
				t.Errorf("%s, %s:\n--- fenced\n%s\n--- bare\n%s", name, under, got, bare)
			}
		}
	}
	for _, s := range c.Statements {
		if w.Engine.NoReturning && strings.Contains(s.Text, "RETURNING") {
			continue
		}
		for _, r := range ways {
			if w.Engine.Lazy && r.name == "unread" {
				continue // the fence looks at the rows when they are closed
			}
			if s.Query && r.name != "DB.Query" && r.name != "Stmt.Query, twice" && r.name != "Tx.Query" {
				continue
			}
			if c.Roads != nil && !slices.Contains(c.Roads, r.name) {
				continue
			}
			compare(r.name+": "+s.Text, s.Unguarded, func(p *Program) { r.run(p, w.SQL(s.Text), s.Args) })
		}
	}
	for name, story := range c.Stories {
		if c.Brief {
			break
		}
		compare(name, false, story)
	}
	t.Logf("%d operations, %d differences", operations, differences)
}
