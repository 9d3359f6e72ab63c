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

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// faultyServer answers statements, and fails where it is told to. Its
// connections write down what reaches it.
type faultyServer struct {
	engine   sqlgen.Engine
	fail     map[string]error // by the beginning of a text, or "COMMIT", "ROLLBACK" of a driver.Tx; once each
	affected int64
	mark     guard.Token // SQLite: what the marks' table holds
	log      []string
	conns    int
}

func (s *faultyServer) Connect(context.Context) (driver.Conn, error) {
	s.conns++
	return &faultyConn{s}, nil
}
func (s *faultyServer) Driver() driver.Driver { return oneDriver{} }

// reach notes the statement and returns the fault that is due.
func (s *faultyServer) reach(text string) error {
	s.log = append(s.log, text)
	for prefix, err := range s.fail {
		if strings.HasPrefix(text, prefix) {
			delete(s.fail, prefix)
			return err
		}
	}
	return nil
}

func (s *faultyServer) count(prefix string) (n int) {
	for _, l := range s.log {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

type faultyConn struct{ s *faultyServer }

func (c *faultyConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not here") }
func (c *faultyConn) Close() error                        { return nil }
func (c *faultyConn) Begin() (driver.Tx, error) {
	if err := c.s.reach("BEGIN"); err != nil {
		return nil, err
	}
	return faultyTx{c.s}, nil
}
func (c *faultyConn) ExecContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	if err := c.s.reach(text); err != nil {
		return nil, err
	}
	if text == "ROLLBACK" {
		return nil, errors.New("cannot rollback - no transaction is active")
	}
	return driver.RowsAffected(c.s.affected), nil
}
func (c *faultyConn) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	if err := c.s.reach(text); err != nil {
		return nil, err
	}
	switch text {
	case sqlgen.VersionSQL(c.s.engine):
		return &valueRows{rows: [][]driver.Value{{int64(sqlgen.SchemaVersion)}}}, nil
	case sqlgen.CheckSQL(sqlgen.SQLite, 1):
		return &valueRows{rows: [][]driver.Value{{c.s.mark.Resource, c.s.mark.Epoch, c.s.mark.Grant}}}, nil
	case sqlgen.MarkSQL(sqlgen.PostgreSQL):
		return &valueRows{rows: [][]driver.Value{{c.s.mark.Epoch, c.s.mark.Grant}}}, nil
	case "PRAGMA database_list":
		return &valueRows{rows: [][]driver.Value{{int64(0), "main", ""}}}, nil
	}
	return &valueRows{}, nil
}

type faultyTx struct{ s *faultyServer }

func (t faultyTx) Commit() error   { return t.s.reach("COMMIT") }
func (t faultyTx) Rollback() error { return t.s.reach("ROLLBACK") }

type valueRows struct{ rows [][]driver.Value }

func (r *valueRows) Columns() []string {
	if len(r.rows) > 0 && len(r.rows[0]) == 2 {
		return []string{"a", "b"}
	}
	return []string{"a", "b", "c"}
}
func (r *valueRows) Close() error { return nil }
func (r *valueRows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

// CASES D18: a statement that was sent is never sent again, and one that was not
// is sent again as with the bare driver.
func TestLostConnections(t *testing.T) {
	token := guard.Token{Resource: "r", Epoch: 7, Grant: 70}
	const fits, fitsNot = "UPDATE d SET v = 1", "UPDATE d SET v = $1" // without arguments
	wrapped := fmt.Errorf("wrapped: %w", driver.ErrBadConn)
	for name, x := range map[string]struct {
		engine  sqlgen.Engine
		text    string
		fail    map[string]error
		sent    int // how often the data statement was sent
		commits int
		fails   bool
	}{
		"before the statement was sent": {sqlgen.PostgreSQL, fits, map[string]error{"WITH ": driver.ErrBadConn}, 2, 0, false},
		"at the first question":         {sqlgen.PostgreSQL, fits, map[string]error{"SELECT ": driver.ErrBadConn}, 1, 0, false},
		"at BEGIN":                      {sqlgen.PostgreSQL, fitsNot, map[string]error{"BEGIN": driver.ErrBadConn}, 1, 1, false},
		"at the check":                  {sqlgen.PostgreSQL, fitsNot, map[string]error{sqlgen.CheckSQL(sqlgen.PostgreSQL, 1): driver.ErrBadConn}, 1, 1, false},
		"between check and statement":   {sqlgen.PostgreSQL, fitsNot, map[string]error{"UPDATE": driver.ErrBadConn}, 2, 1, false},
		"between, and at the roll-back": {sqlgen.PostgreSQL, fitsNot, map[string]error{"UPDATE": driver.ErrBadConn, "ROLLBACK": driver.ErrBadConn}, 2, 1, false},
		"at the commit":                 {sqlgen.PostgreSQL, fitsNot, map[string]error{"COMMIT": driver.ErrBadConn}, 1, 1, true},
		"at the commit, wrapped":        {sqlgen.PostgreSQL, fitsNot, map[string]error{"COMMIT": wrapped}, 1, 1, true},
		"SQLite, at the question":       {sqlgen.SQLite, fits, map[string]error{"WITH presented": driver.ErrBadConn}, 1, 0, true},
		"SQLite, at the savepoint":      {sqlgen.SQLite, fitsNot, map[string]error{"SAVEPOINT": driver.ErrBadConn}, 1, 0, false},
		"SQLite, at the release":        {sqlgen.SQLite, fitsNot, map[string]error{"RELEASE": driver.ErrBadConn}, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &faultyServer{engine: x.engine, fail: x.fail, mark: token}
			db := sql.OpenDB(fence.WrapConnector(s, x.engine))
			defer db.Close()
			_, err := db.ExecContext(guard.With(t.Context(), token), x.text)
			if (err != nil) != x.fails || errors.Is(err, driver.ErrBadConn) {
				t.Errorf("got error %v", err)
			}
			sent := s.count("UPDATE d")
			for _, l := range s.log {
				if strings.HasPrefix(l, "WITH ") && strings.Contains(l, "UPDATE d") {
					sent++
				}
			}
			if sent != x.sent || s.count("COMMIT") != x.commits {
				t.Errorf("sent %d times, want %d; committed %d times, want %d:\n%s", sent, x.sent, s.count("COMMIT"), x.commits, strings.Join(s.log, "\n"))
			}
		})
	}
}

// A connection whose roll-back fails is given up: the transaction may be open.
func TestARollbackThatFails(t *testing.T) {
	token := guard.Token{Resource: "r", Epoch: 7, Grant: 70}
	for _, engine := range []sqlgen.Engine{sqlgen.PostgreSQL, sqlgen.SQLite} {
		refusal := error(nil)
		if engine == sqlgen.PostgreSQL {
			refusal = &serverError{"SF001", "sqlfence: fenced: high_water=8 grant=1 epoch=7 resource=r"}
		}
		down := errors.New("down")
		s := &faultyServer{engine: engine, mark: guard.Token{Resource: "r", Epoch: 8, Grant: 80},
			fail: map[string]error{"ROLLBACK": down}}
		db := sql.OpenDB(fence.WrapConnector(s, engine))
		db.SetMaxOpenConns(1)
		tx, err := db.BeginTx(guard.With(t.Context(), token), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.fail["WITH "] = refusal
		if refusal == nil {
			delete(s.fail, "WITH ")
			s.fail["BEGIN"] = down // SQLite is asked whether it has rolled back by itself
		}
		if _, err := tx.Exec("UPDATE d SET v = 1"); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("%s: got error %v, want ErrFenced", engine, err)
		}
		if err := tx.Commit(); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("%s: Commit: %v, want ErrFenced", engine, err)
		}
		if _, err := db.ExecContext(guard.With(t.Context(), guard.Token{Resource: "r", Epoch: 8, Grant: 80}), "UPDATE d SET v = 2"); err != nil {
			t.Errorf("%s: the next statement: %v", engine, err)
		}
		if s.conns != 2 {
			t.Errorf("%s: %d connections were opened, want a second one", engine, s.conns)
		}
		if n := s.count("COMMIT"); n != 0 {
			t.Errorf("%s: committed %d times", engine, n)
		}
		db.Close()
	}
}

type serverError struct{ state, message string }

func (e *serverError) Error() string    { return e.message }
func (e *serverError) SQLState() string { return e.state }

// A question that finds the mark moved after the rows were seen does not take
// back what was told; one that cannot be asked is an error.
func TestRowsOfAGuardedStatement(t *testing.T) {
	token := guard.Token{Resource: "r", Epoch: 7, Grant: 70}
	s := &faultyServer{engine: sqlgen.SQLite, mark: token, fail: map[string]error{}}
	db := sql.OpenDB(fence.WrapConnector(s, sqlgen.SQLite))
	defer db.Close()
	ctx := guard.With(t.Context(), token)
	n, err := queried(db.QueryContext(ctx, "UPDATE d SET v = 1 RETURNING a"))
	if n != 0 || err != nil {
		t.Errorf("a valid token: %d rows, %v", n, err)
	}
	s.fail["WITH presented"] = errors.New("down")
	if _, err := queried(db.QueryContext(ctx, "UPDATE d SET v = 1 RETURNING a")); err == nil || err.Error() != "down" {
		t.Errorf("the question fails: %v", err)
	}
	s.mark.Epoch = 8
	for _, unread := range []bool{true, false} {
		rows, err := db.QueryContext(ctx, "UPDATE d SET v = 1 RETURNING a")
		if err != nil {
			t.Fatal(err)
		}
		if !unread {
			for rows.Next() {
			}
			err = rows.Err()
		} else {
			err = rows.Close()
		}
		if !errors.Is(err, guard.ErrFenced) {
			t.Errorf("unread %v: got error %v, want ErrFenced", unread, err)
		}
		if err := rows.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
	}
}

// A program that uses the driver without database/sql sees the refusal at the end
// of the rows.
func TestRefusalAtTheEndOfTheRows(t *testing.T) {
	token := guard.Token{Resource: "r", Epoch: 7, Grant: 70}
	s := &faultyServer{engine: sqlgen.SQLite, mark: guard.Token{Resource: "r", Epoch: 8, Grant: 80}}
	c, err := fence.WrapConnector(s, sqlgen.SQLite).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.(driver.QueryerContext).QueryContext(guard.With(t.Context(), token), "UPDATE d SET v = 1 RETURNING a", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rows.Next(make([]driver.Value, 3)); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("Next: got error %v, want ErrFenced", err)
		}
	}
	if err := rows.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// middleware wraps a driver without a word, as sqlmw does.
type middleware struct{ parent driver.Driver }

func (m middleware) Open(name string) (driver.Conn, error) {
	c, err := m.parent.Open(name)
	return hidden{c}, err
}

type hidden struct{ c driver.Conn }

func (h hidden) Prepare(q string) (driver.Stmt, error) { return h.c.Prepare(q) }
func (h hidden) Close() error                          { return h.c.Close() }
func (h hidden) Begin() (driver.Tx, error)             { return h.c.Begin() } //nolint:staticcheck // as old middleware does
func (h hidden) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	return h.c.(driver.ExecerContext).ExecContext(ctx, q, args)
}

// SPEC G11: other middleware around the fence leaves it shut, and a fence around
// a fence that cannot be seen does not open either.
func TestStackedMiddleware(t *testing.T) {
	token := guard.Token{Resource: "r", Epoch: 7, Grant: 70}
	for name, stack := range map[string]func(driver.Driver) driver.Driver{
		"middleware, fence": func(d driver.Driver) driver.Driver { return middleware{fence.Wrap(d, sqlgen.PostgreSQL)} },
		"fence, middleware": func(d driver.Driver) driver.Driver { return fence.Wrap(middleware{d}, sqlgen.PostgreSQL) },
		"fence, middleware, fence": func(d driver.Driver) driver.Driver {
			return fence.Wrap(middleware{fence.Wrap(d, sqlgen.PostgreSQL)}, sqlgen.PostgreSQL)
		},
	} {
		var log []string
		c, err := stack(oneDriver{sendRecorder(&log)}).Open("")
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(oneConnector{c})
		_, err = db.ExecContext(guard.With(t.Context(), token), "UPDATE d SET v = 1")
		if err != nil && !errors.Is(err, guard.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		for _, l := range log {
			if strings.Contains(l, "UPDATE d") && !strings.Contains(l, "sqlfence.pass(") {
				t.Errorf("%s: sent %s", name, l)
			}
		}
		db.Close()
	}
}

// resultSets are rows with a second result set, which fails.
type resultSets struct {
	valueRows
	err error
}

func (r *resultSets) HasNextResultSet() bool { return true }
func (r *resultSets) NextResultSet() error   { return r.err }

type resultSetConn struct {
	faultyConn
	err error
}

func (c *resultSetConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if strings.Contains(text, "UPDATE d") {
		return &resultSets{err: c.err}, nil
	}
	return c.faultyConn.QueryContext(ctx, text, args)
}

// A refusal may show as late as in a further result set.
func TestRefusalInAFurtherResultSet(t *testing.T) {
	token := guard.Token{Resource: "r", Epoch: 7, Grant: 70}
	for _, x := range []struct{ err, want error }{
		{&serverError{"SF001", "sqlfence: fenced: high_water=8 grant=1 epoch=7 resource=r"}, guard.ErrFenced},
		{&serverError{"23505", "duplicate"}, nil},
	} {
		raw := &resultSetConn{faultyConn{&faultyServer{engine: sqlgen.PostgreSQL, mark: token}}, x.err}
		db := sql.OpenDB(fence.WrapConnector(oneConnector{raw}, sqlgen.PostgreSQL))
		rows, err := db.QueryContext(guard.With(t.Context(), token), "UPDATE d SET v = 1")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
		}
		if rows.NextResultSet() {
			t.Error("there is a further result set")
		}
		if err := rows.Err(); x.want != nil && !errors.Is(err, x.want) || x.want == nil && err != x.err {
			t.Errorf("got error %v for %v", err, x.err)
		}
		rows.Close()
		db.Close()
	}
}

// The question whether a failure hides a refusal executes nothing again, and a
// question that fails leaves the failure what it was.
func TestAFailureThatMayHideARefusal(t *testing.T) {
	token := guard.Token{Resource: "r", Epoch: 7, Grant: 70}
	duplicate := &serverError{"23505", "duplicate key"}
	for name, x := range map[string]struct {
		mark guard.Token
		ask  error
		want error
	}{
		"valid":                    {token, nil, duplicate},
		"stale":                    {guard.Token{Resource: "r", Epoch: 8}, nil, guard.ErrFenced},
		"no answer":                {guard.Token{Resource: "r", Epoch: 8}, errors.New("down"), duplicate},
		"a lost connection":        {guard.Token{Resource: "r", Epoch: 8}, driver.ErrBadConn, duplicate},
		"the table is not allowed": {guard.Token{Resource: "r", Epoch: 8}, &serverError{"42501", "no"}, duplicate},
	} {
		for _, inTx := range []bool{false, true} {
			s := &faultyServer{engine: sqlgen.PostgreSQL, mark: x.mark, fail: map[string]error{"WITH ": duplicate}}
			if x.ask != nil {
				s.fail[sqlgen.MarkSQL(sqlgen.PostgreSQL)] = x.ask
			}
			db := sql.OpenDB(fence.WrapConnector(s, sqlgen.PostgreSQL))
			ctx := guard.With(t.Context(), token)
			var err error
			if inTx {
				tx, beginErr := db.BeginTx(ctx, nil)
				if beginErr != nil {
					t.Fatal(beginErr)
				}
				_, err = tx.Exec("INSERT INTO d VALUES (1)")
				if commitErr := tx.Commit(); errors.Is(x.want, guard.ErrFenced) != errors.Is(commitErr, guard.ErrFenced) {
					t.Errorf("%s: Commit: %v", name, commitErr)
				}
			} else {
				_, err = db.ExecContext(ctx, "INSERT INTO d VALUES (1)")
			}
			var server *serverError
			if !errors.Is(err, x.want) || !errors.As(err, &server) || server != duplicate {
				t.Errorf("%s, in a transaction %v: got error %v, want %v", name, inTx, err, x.want)
			}
			if n := s.count("WITH "); n != 1 {
				t.Errorf("%s, in a transaction %v: sent %d times, want once:\n%s", name, inTx, n, strings.Join(s.log, "\n"))
			}
			db.Close()
		}
	}
}
