package driver_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// bareConn is a connection with no optional interface. What it is asked is
// written to the log.
type bareConn struct{ log *[]string }

func (c bareConn) note(format string, args ...any) {
	if c.log != nil {
		*c.log = append(*c.log, fmt.Sprintf(format, args...))
	}
}

func (c bareConn) Prepare(query string) (driver.Stmt, error) {
	c.note("Prepare %s", query)
	return bareStmt{c, query}, nil
}
func (c bareConn) Close() error { c.note("Close"); return nil }
func (c bareConn) Begin() (driver.Tx, error) {
	c.note("Begin")
	return bareTx{c}, nil
}

type bareTx struct{ c bareConn }

func (t bareTx) Commit() error   { t.c.note("Commit"); return nil }
func (t bareTx) Rollback() error { t.c.note("Rollback"); return nil }

type bareStmt struct {
	c     bareConn
	query string
}

func (s bareStmt) Close() error  { s.c.note("Stmt.Close"); return nil }
func (s bareStmt) NumInput() int { return -1 }
func (s bareStmt) Exec(args []driver.Value) (driver.Result, error) {
	s.c.note("Stmt.Exec %s %v", s.query, args)
	return driver.RowsAffected(1), nil
}
func (s bareStmt) Query(args []driver.Value) (driver.Rows, error) {
	s.c.note("Stmt.Query %s %v", s.query, args)
	return answer(s.query), nil
}

// answer is what a set-up database answers to the question for its version.
func answer(query string) driver.Rows {
	if query == sqlgen.VersionSQL(sqlgen.PostgreSQL) {
		return &oneRow{value: int64(sqlgen.SchemaVersion)}
	}
	return &oneRow{done: true}
}

type oneRow struct {
	value driver.Value
	done  bool
}

func (r *oneRow) Columns() []string { return []string{"c"} }
func (r *oneRow) Close() error      { return nil }
func (r *oneRow) Next(dest []driver.Value) error {
	if r.done {
		return io.EOF
	}
	dest[0], r.done = r.value, true
	return nil
}

// The optional interfaces, to be mixed in.
type (
	withExecer        struct{ c bareConn }
	withQueryer       struct{ c bareConn }
	withExecerContext struct{ c bareConn }
	withQueryContext  struct{ c bareConn }
	withResetter      struct{ c bareConn }
	withValidator     struct{ c bareConn }
	withPinger        struct{ c bareConn }
	withBeginTx       struct{ c bareConn }
	withPrepare       struct{ c bareConn }
	withChecker       struct{ c bareConn }
)

func (m withExecer) Exec(query string, args []driver.Value) (driver.Result, error) {
	m.c.note("Exec %s %v", query, args)
	return driver.RowsAffected(1), nil
}
func (m withQueryer) Query(query string, args []driver.Value) (driver.Rows, error) {
	m.c.note("Query %s %v", query, args)
	return answer(query), nil
}
func (m withExecerContext) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	m.c.note("ExecContext %s %v", query, plainValues(args))
	return driver.RowsAffected(1), nil
}
func (m withQueryContext) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	m.c.note("QueryContext %s %v", query, plainValues(args))
	return answer(query), nil
}
func (m withResetter) ResetSession(context.Context) error { m.c.note("ResetSession"); return nil }
func (m withValidator) IsValid() bool                     { m.c.note("IsValid"); return true }
func (m withPinger) Ping(context.Context) error           { m.c.note("Ping"); return errors.New("pinged") }
func (m withBeginTx) BeginTx(_ context.Context, o driver.TxOptions) (driver.Tx, error) {
	m.c.note("BeginTx %v", o)
	return bareTx(m), nil
}
func (m withPrepare) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	m.c.note("PrepareContext %s", query)
	return bareStmt{m.c, query}, nil
}
func (m withChecker) CheckNamedValue(v *driver.NamedValue) error {
	m.c.note("CheckNamedValue")
	v.Value = fmt.Sprint(v.Value)
	return nil
}

func plainValues(args []driver.NamedValue) []driver.Value {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		values[i] = a.Value
	}
	return values
}

// oneDriver hands out one connection.
type oneDriver struct{ c driver.Conn }

func (d oneDriver) Open(string) (driver.Conn, error) { return d.c, nil }

func wrapped(t testing.TB, c driver.Conn, opts ...fence.Option) driver.Conn {
	t.Helper()
	w, err := fence.Wrap(oneDriver{c}, sqlgen.PostgreSQL, opts...).Open("")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A wrapped connection implements an optional interface if and only if the bare
// one does (CASES D17), or has an answer that is the same as none.
func TestConnHasTheInterfacesOfTheBareOne(t *testing.T) {
	c := bareConn{}
	e, q := withExecer{c}, withQueryer{c}
	ec, qc := withExecerContext{c}, withQueryContext{c}
	r, v := withResetter{c}, withValidator{c}
	for _, raw := range []driver.Conn{
		c,
		struct {
			bareConn
			withExecer
		}{c, e},
		struct {
			bareConn
			withQueryer
		}{c, q},
		struct {
			bareConn
			withExecerContext
		}{c, ec},
		struct {
			bareConn
			withQueryContext
		}{c, qc},
		struct {
			bareConn
			withExecer
			withQueryer
		}{c, e, q},
		struct {
			bareConn
			withResetter
		}{c, r},
		struct {
			bareConn
			withExecer
			withResetter
		}{c, e, r},
		struct {
			bareConn
			withQueryer
			withResetter
		}{c, q, r},
		struct {
			bareConn
			withExecerContext
			withQueryContext
			withResetter
		}{c, ec, qc, r},
		struct {
			bareConn
			withValidator
		}{c, v},
		struct {
			bareConn
			withExecer
			withValidator
		}{c, e, v},
		struct {
			bareConn
			withQueryer
			withValidator
		}{c, q, v},
		struct {
			bareConn
			withExecerContext
			withQueryContext
			withValidator
		}{c, ec, qc, v},
		struct {
			bareConn
			withResetter
			withValidator
		}{c, r, v},
		struct {
			bareConn
			withExecer
			withResetter
			withValidator
		}{c, e, r, v},
		struct {
			bareConn
			withQueryer
			withResetter
			withValidator
		}{c, q, r, v},
		struct {
			bareConn
			withExecerContext
			withQueryContext
			withResetter
			withValidator
		}{c, ec, qc, r, v},
	} {
		w := wrapped(t, raw)
		_, hasExecer := raw.(driver.Execer)
		_, hasExecerContext := raw.(driver.ExecerContext)
		_, hasQueryer := raw.(driver.Queryer)
		_, hasQueryerContext := raw.(driver.QueryerContext)
		_, hasResetter := raw.(driver.SessionResetter)
		_, hasValidator := raw.(driver.Validator)

		if _, got := w.(driver.ExecerContext); got != (hasExecer || hasExecerContext) {
			t.Errorf("%T: ExecerContext: got %v", raw, got)
		}
		if _, got := w.(driver.QueryerContext); got != (hasQueryer || hasQueryerContext) {
			t.Errorf("%T: QueryerContext: got %v", raw, got)
		}
		if _, got := w.(driver.SessionResetter); got != hasResetter {
			t.Errorf("%T: SessionResetter: got %v", raw, got)
		}
		if _, got := w.(driver.Validator); got != hasValidator {
			t.Errorf("%T: Validator: got %v", raw, got)
		}
		// These are always there.
		if err := w.(driver.Pinger).Ping(t.Context()); err != nil {
			t.Errorf("%T: Ping without a Pinger: %v", raw, err)
		}
		if err := w.(driver.NamedValueChecker).CheckNamedValue(&driver.NamedValue{Value: 1}); err != driver.ErrSkip {
			t.Errorf("%T: CheckNamedValue without a checker: %v", raw, err)
		}
		if _, err := w.(driver.ConnBeginTx).BeginTx(t.Context(), driver.TxOptions{ReadOnly: true}); err == nil {
			t.Errorf("%T: a read-only transaction without BeginTx", raw)
		}
		if _, err := w.(driver.ConnBeginTx).BeginTx(t.Context(), driver.TxOptions{Isolation: driver.IsolationLevel(sql.LevelSerializable)}); err == nil {
			t.Errorf("%T: an isolation level without BeginTx", raw)
		}
		if _, err := w.(driver.ConnPrepareContext).PrepareContext(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("%T: PrepareContext: %v", raw, err)
		}
		if bare, ok := fence.Raw(w); !ok || bare != raw {
			t.Errorf("%T: Raw returns %T, %v", raw, bare, ok)
		}
	}
}

func TestConnPassesOnWhatTheBareOneHas(t *testing.T) {
	var log []string
	c := bareConn{&log}
	w := wrapped(t, struct {
		bareConn
		withExecerContext
		withQueryContext
		withResetter
		withValidator
		withPinger
		withBeginTx
		withPrepare
		withChecker
	}{c, withExecerContext{c}, withQueryContext{c}, withResetter{c}, withValidator{c}, withPinger{c}, withBeginTx{c}, withPrepare{c}, withChecker{c}})
	ctx := t.Context()
	if err := w.(driver.Pinger).Ping(ctx); err == nil {
		t.Error("the error of Ping is lost")
	}
	if err := w.(driver.SessionResetter).ResetSession(ctx); err != nil {
		t.Error(err)
	}
	if !w.(driver.Validator).IsValid() {
		t.Error("not valid")
	}
	v := driver.NamedValue{Value: 7}
	if err := w.(driver.NamedValueChecker).CheckNamedValue(&v); err != nil || v.Value != "7" {
		t.Errorf("CheckNamedValue: %v, %v", v, err)
	}
	opts := driver.TxOptions{Isolation: 6, ReadOnly: true}
	tx, err := w.(driver.ConnBeginTx).BeginTx(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	if _, err := w.(driver.ConnPrepareContext).PrepareContext(ctx, "SELECT 1"); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	want := []string{"Ping", "ResetSession", "IsValid", "CheckNamedValue", "BeginTx " + fmt.Sprint(opts), "Commit", "PrepareContext SELECT 1", "Close"}
	if got := strings.Join(log, "|"); got != strings.Join(want, "|") {
		t.Errorf("the bare connection was asked %q, want %q", got, want)
	}
}

// Drivers without Execer, with the old ones, and with those of today: the same
// statements, and none without the fence.
func TestDriversOfEveryAge(t *testing.T) {
	token := guard.Token{Resource: "r", Epoch: 7, Grant: 70}
	const text = "UPDATE d SET v = $1 WHERE id = $2"
	spliced, err := sqlgen.Analyze(sqlgen.PostgreSQL, text).Guarded(1)
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	c := bareConn{&log}
	for name, x := range map[string]struct {
		raw  driver.Conn
		verb string
	}{
		"no Execer": {c, "Stmt.Exec"},
		"Execer": {struct {
			bareConn
			withExecer
			withQueryer
		}{c, withExecer{c}, withQueryer{c}}, "Exec"},
		"ExecerContext": {struct {
			bareConn
			withExecerContext
			withQueryContext
		}{c, withExecerContext{c}, withQueryContext{c}}, "ExecContext"},
	} {
		t.Run(name, func(t *testing.T) {
			log = nil
			db := sql.OpenDB(fence.WrapConnector(oneConnector{x.raw}, sqlgen.PostgreSQL))
			defer db.Close()
			db.SetMaxOpenConns(1)
			if _, err := db.Exec(text, "x", 1); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := db.ExecContext(guard.With(t.Context(), token), text, "x", 1); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := queried(db.QueryContext(guard.With(t.Context(), token), text, "x", 1)); n != 0 || err != nil {
				t.Errorf("Query: %d rows, %v", n, err)
			}
			if _, err := db.ExecContext(guard.With(t.Context(), token), text); err != nil {
				t.Errorf("without arguments: %v", err)
			}
			var executed []string
			for _, l := range log {
				if strings.HasPrefix(l, x.verb+" ") {
					executed = append(executed, l)
				}
			}
			check := sqlgen.CheckSQL(sqlgen.PostgreSQL, 1)
			want := x.verb + " " + text + " [x 1]|" +
				x.verb + " " + spliced + " [x 1 r 7 70]|" + x.verb + " " + spliced + " [x 1 r 7 70]|" +
				x.verb + " " + check + " [r 7 70]|" + x.verb + " " + text + " []"
			query := strings.Replace(x.verb, "Exec", "Query", 1)
			if !strings.Contains(strings.Join(log, "|"), query+" "+spliced+" [x 1 r 7 70]") {
				t.Errorf("Query sent no guarded text:\n%s", strings.Join(log, "\n"))
			}
			if got := strings.Join(executed, "|"); got != want {
				t.Errorf("executed\n%s, want\n%s", got, want)
			}
		})
	}
}

type oneConnector struct{ c driver.Conn }

func (o oneConnector) Connect(context.Context) (driver.Conn, error) { return o.c, nil }
func (o oneConnector) Driver() driver.Driver                        { return oneDriver(o) }

type closingConnector struct {
	oneConnector
	closed *bool
}

func (c closingConnector) Close() error { *c.closed = true; return errors.New("closed") }

func TestConnector(t *testing.T) {
	closed := false
	db := sql.OpenDB(fence.WrapConnector(closingConnector{oneConnector{bareConn{}}, &closed}, sqlgen.SQLite))
	if err := db.Close(); err == nil || err.Error() != "closed" || !closed {
		t.Errorf("closing the database: %v, parent closed: %v", err, closed)
	}
	db = sql.OpenDB(fence.WrapConnector(oneConnector{bareConn{}}, sqlgen.SQLite))
	if err := db.Close(); err != nil {
		t.Errorf("closing a connector that cannot be closed: %v", err)
	}
	c, err := db.Driver().Open("")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := fence.Raw(c); !ok {
		t.Error("the driver of the connector opens bare connections")
	}
}

// otelConn shows what it wraps, as XSAM/otelsql does.
type otelConn struct{ driver.Conn }

func (c otelConn) Raw() driver.Conn { return c.Conn }

func TestWrappingTwiceIsRefused(t *testing.T) {
	once := fence.Wrap(oneDriver{bareConn{}}, sqlgen.SQLite)
	for name, parent := range map[string]driver.Driver{
		"directly":               once,
		"under other middleware": oneDriver{otelConn{wrapped(t, bareConn{})}},
	} {
		_, err := fence.Wrap(parent, sqlgen.SQLite).Open("")
		if !errors.Is(err, guard.ErrSetup) {
			t.Errorf("%s: got error %v, want ErrSetup", name, err)
		}
	}
	if _, err := fence.Wrap(oneDriver{otelConn{bareConn{}}}, sqlgen.SQLite).Open(""); err != nil {
		t.Errorf("other middleware alone: %v", err)
	}
}

func TestRegisterSaysWhatIsWrong(t *testing.T) {
	fence.Register("sqlfence-test", oneDriver{bareConn{}}, sqlgen.SQLite)
	for name, f := range map[string]func(){
		`"sqlfence-test" is already registered`: func() { fence.Register("sqlfence-test", oneDriver{bareConn{}}, sqlgen.SQLite) },
		"parent driver is nil":                  func() { fence.Register("sqlfence-nil", nil, sqlgen.SQLite) },
		"no fence for engine 99":                func() { fence.Register("sqlfence-engine", oneDriver{bareConn{}}, sqlgen.Engine(99)) },
		"parent connector is nil":               func() { fence.WrapConnector(nil, sqlgen.SQLite) },
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, name) {
					t.Errorf("panic %q, want one that says %q", p, name)
				}
			}()
			f()
		}()
	}
}

func TestRawOfSomethingElse(t *testing.T) {
	for _, c := range []any{nil, bareConn{}, otelConn{bareConn{}}, 7} {
		if raw, ok := fence.Raw(c); ok {
			t.Errorf("Raw(%T) = %T", c, raw)
		}
	}
}

// odd is a type that only a converter of the driver accepts.
type odd struct{ n int }

type converterConn struct{ bareConn }

func (c converterConn) Prepare(query string) (driver.Stmt, error) {
	return converterStmt{bareStmt{c.bareConn, query}}, nil
}

type converterStmt struct{ bareStmt }

func (converterStmt) NumInput() int { return 1 }
func (converterStmt) ColumnConverter(int) driver.ValueConverter {
	return converter{}
}

type converter struct{}

func (converter) ConvertValue(v any) (driver.Value, error) {
	if o, ok := v.(odd); ok {
		return int64(o.n), nil
	}
	return driver.DefaultParameterConverter.ConvertValue(v)
}

type checkerStmtConn struct{ bareConn }

func (c checkerStmtConn) Prepare(query string) (driver.Stmt, error) {
	return checkerStmt{bareStmt{c.bareConn, query}}, nil
}

type checkerStmt struct{ bareStmt }

func (checkerStmt) CheckNamedValue(v *driver.NamedValue) error {
	if o, ok := v.Value.(odd); ok {
		v.Value = int64(o.n)
		return nil
	}
	return driver.ErrSkip
}

// CASES D16: what a program may pass as an argument is what the bare driver
// takes, and arrives as it would there.
func TestArgumentsAreCheckedAsByTheBareDriver(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var nilTime *time.Time
	var log []string
	c := bareConn{&log}
	for name, raw := range map[string]driver.Conn{
		"no Execer": c,
		"Execer": struct {
			bareConn
			withExecer
		}{c, withExecer{c}},
		"ExecerContext": struct {
			bareConn
			withExecerContext
		}{c, withExecerContext{c}},
		"checker": struct {
			bareConn
			withExecerContext
			withChecker
		}{c, withExecerContext{c}, withChecker{c}},
		"checker, no Execer": struct {
			bareConn
			withChecker
		}{c, withChecker{c}},
		"converter of the statement": converterConn{c},
		"checker of the statement":   checkerStmtConn{c},
	} {
		for _, arg := range []any{1, int8(3), uint64(1 << 63), "s", nil, nilTime, now, []byte("b"), []string{"a"}, odd{7},
			sql.NullString{String: "n", Valid: true}, sql.Named("n", 1), struct{}{}, 1.5, true} {
			for _, prepared := range []bool{false, true} {
				do := func(connector driver.Connector) (string, error) {
					log = nil
					db := sql.OpenDB(connector)
					defer db.Close()
					var err error
					if prepared {
						var s *sql.Stmt
						if s, err = db.Prepare("UPDATE d SET v = $1"); err == nil {
							_, err = s.Exec(arg)
						}
					} else {
						_, err = db.Exec("UPDATE d SET v = $1", arg)
					}
					var executed []string
					for _, l := range log {
						if strings.Contains(l, "Exec") || strings.Contains(l, "Check") {
							executed = append(executed, l)
						}
					}
					return strings.Join(executed, "|"), err
				}
				bare, bareErr := do(oneConnector{raw})
				got, err := do(fence.WrapConnector(oneConnector{raw}, sqlgen.PostgreSQL))
				if got != bare || fmt.Sprint(err) != fmt.Sprint(bareErr) {
					t.Errorf("%s, prepared %v, %#v:\n got %s, %v\nbare %s, %v", name, prepared, arg, got, err, bare, bareErr)
				}
			}
		}
	}
}

// sendRecorder records every text that reaches the driver.
func sendRecorder(log *[]string) driver.Conn {
	c := bareConn{log}
	return struct {
		bareConn
		withExecerContext
		withQueryContext
	}{c, withExecerContext{c}, withQueryContext{c}}
}

// Without a token the text that is sent is the text that was given, byte for
// byte, on every road (SPEC G5).
func TestWithoutATokenTheTextIsTheSame(t *testing.T) {
	texts := []string{
		"UPDATE d SET v = 1", " \t\nUPDATE d SET v = 1 ;; -- end", "/* x */ SELECT 'delete me'", "garbage ' \x00 \xff (", "",
		"BEGIN", "ROLLBACK TO a", "COPY d FROM STDIN", "DO $$ begin end $$", "SELECT 1; DROP TABLE d", "ATTACH 'x' AS y", "INSERT INTO d VALUES ($1)",
		"UPDATE d SET v = E'\\'' WHERE x ? 'a'",
	}
	for _, engine := range []sqlgen.Engine{sqlgen.PostgreSQL, sqlgen.SQLite} {
		listed, err := guard.NewPolicy(guard.Tables("d"))
		if err != nil {
			t.Fatal(err)
		}
		required, err := guard.NewPolicy(guard.Tables("other"), guard.Require())
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range map[string]struct {
			opts []fence.Option
			ctx  context.Context
		}{
			"no policy":       {nil, t.Context()},
			"Without":         {nil, guard.Without(guard.With(t.Context(), guard.Token{Resource: "r", Epoch: 1}))},
			"listed":          {[]fence.Option{fence.WithPolicy(listed)}, t.Context()},
			"required, freed": {[]fence.Option{fence.WithPolicy(required)}, guard.Without(t.Context())},
		} {
			for _, text := range texts {
				var log []string
				db := sql.OpenDB(fence.WrapConnector(oneConnector{sendRecorder(&log)}, engine, x.opts...))
				db.SetMaxOpenConns(1)
				roads := map[string]func() error{
					"ExecContext":  func() error { _, err := db.ExecContext(x.ctx, text); return err },
					"QueryContext": func() error { _, err := queried(db.QueryContext(x.ctx, text)); return err },
					"Stmt.Exec": func() error {
						s, err := db.PrepareContext(x.ctx, text)
						if err != nil {
							return err
						}
						defer s.Close()
						_, err = s.ExecContext(x.ctx)
						return err
					},
				}
				for verb, run := range roads {
					log = nil
					if err := run(); err != nil {
						t.Errorf("%s, %s, %q: %v", engine, name, text, err)
					}
					var sent []string
					for _, l := range log {
						if v, rest, _ := strings.Cut(l, " "); v == verb {
							sent = append(sent, strings.TrimSuffix(rest, " []"))
						}
					}
					if len(sent) != 1 || sent[0] != text {
						t.Errorf("%s, %s: %s sent %q for %q", engine, name, verb, sent, text)
					}
				}
				db.Close()
			}
		}
	}
}

func queried(rows *sql.Rows, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

// rewriter looks like those of pgx to a driver that does not know pgx.
type rewriter struct{}

func (rewriter) RewriteQuery(context.Context, any, string, []any) (string, []any, error) {
	return "", nil, nil
}

type anythingConn struct{}

func (anythingConn) CheckNamedValue(*driver.NamedValue) error { return nil }

// A rewriter would take the place of the token's arguments (DESIGN §5).
func TestRewritersOfAnUnknownDriverAreRefused(t *testing.T) {
	var log []string
	c := bareConn{&log}
	db := sql.OpenDB(fence.WrapConnector(oneConnector{struct {
		bareConn
		withExecerContext
		withQueryContext
		anythingConn
	}{c, withExecerContext{c}, withQueryContext{c}, anythingConn{}}}, sqlgen.PostgreSQL))
	defer db.Close()
	ctx := guard.With(t.Context(), guard.Token{Resource: "r", Epoch: 1})
	_, err := db.ExecContext(ctx, "UPDATE d SET v = $1", rewriter{})
	if !errors.Is(err, guard.ErrUnsupported) {
		t.Errorf("got error %v, want ErrUnsupported", err)
	}
	for _, l := range log {
		if strings.Contains(l, "UPDATE") {
			t.Errorf("sent %s", l)
		}
	}
}
