package main

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteDB is one SQLite database in memory. It uses the C interface and not
// database/sql, because only that tells whether a statement writes, where it
// ends and what its parameters are called.
type sqliteDB struct {
	tls *libc.TLS
	db  uintptr
}

func openSQLite() (*sqliteDB, error) {
	s := &sqliteDB{tls: libc.NewTLS()}
	name, free := s.text(":memory:")
	defer free()
	out := libc.Xmalloc(s.tls, 8)
	defer libc.Xfree(s.tls, out)
	rc := sqlite3.Xsqlite3_open_v2(s.tls, name, out, sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_CREATE|sqlite3.SQLITE_OPEN_FULLMUTEX, 0)
	s.db = libc.AtomicLoadNUintptr(out, 0)
	if rc != sqlite3.SQLITE_OK {
		return nil, s.failure(rc)
	}
	return s, nil
}

func (s *sqliteDB) close() {
	sqlite3.Xsqlite3_close_v2(s.tls, s.db)
	s.tls.Close()
}

func (s *sqliteDB) text(t string) (p uintptr, free func()) {
	p, err := libc.CString(t)
	if err != nil {
		panic(err) // no memory
	}
	return p, func() { libc.Xfree(s.tls, p) }
}

func (s *sqliteDB) failure(rc int32) error {
	return fmt.Errorf("%d: %s", rc, libc.GoString(sqlite3.Xsqlite3_errmsg(s.tls, s.db)))
}

// compiled is what SQLite makes of a text.
type compiled struct {
	Several  bool // more than one statement
	Empty    bool
	ReadOnly bool     // it writes nothing; an EXPLAIN never does
	Params   []string // the name of each parameter, "" for one without
}

// compile prepares the first statement of a text and looks whether there is a
// second one.
func (s *sqliteDB) compile(text string) (c compiled, err error) {
	stmt, tail, free, err := s.prepare(text)
	if err != nil {
		return c, err
	}
	defer free()
	if stmt == 0 {
		return compiled{Empty: true, ReadOnly: true}, nil
	}
	c.ReadOnly = sqlite3.Xsqlite3_stmt_readonly(s.tls, stmt) != 0 || sqlite3.Xsqlite3_stmt_isexplain(s.tls, stmt) != 0
	c.Params = s.params(stmt)
	for tail != "" {
		next, rest, free, err := s.prepare(tail)
		if err != nil {
			c.Several = true // whatever it is, it is no white space
			break
		}
		free()
		if next != 0 {
			c.Several = true
			break
		}
		if len(rest) >= len(tail) {
			break
		}
		tail = rest
	}
	return c, nil
}

// changesTransaction reports whether the first statement of a text begins or
// ends a transaction or a savepoint, by the program that SQLite makes of it.
func (s *sqliteDB) changesTransaction(text string) bool {
	for _, row := range s.run("EXPLAIN "+text, func(int, string) any { return nil }).Rows {
		if strings.Contains(row, ",'AutoCommit',") || strings.Contains(row, ",'Savepoint',") {
			return true
		}
	}
	return false
}

func (s *sqliteDB) params(stmt uintptr) []string {
	names := make([]string, sqlite3.Xsqlite3_bind_parameter_count(s.tls, stmt))
	for i := range names {
		if p := sqlite3.Xsqlite3_bind_parameter_name(s.tls, stmt, int32(i+1)); p != 0 {
			names[i] = libc.GoString(p)
		}
	}
	return names
}

func (s *sqliteDB) prepare(text string) (stmt uintptr, tail string, free func(), err error) {
	sql, freeSQL := s.text(text)
	out := libc.Xmalloc(s.tls, 16)
	defer libc.Xfree(s.tls, out)
	rc := sqlite3.Xsqlite3_prepare_v2(s.tls, s.db, sql, -1, out, out+8)
	if rc != sqlite3.SQLITE_OK {
		freeSQL()
		return 0, "", nil, s.failure(rc)
	}
	stmt = libc.AtomicLoadNUintptr(out, 0)
	tail = text[libc.AtomicLoadNUintptr(out+8, 0)-sql:]
	return stmt, tail, func() {
		sqlite3.Xsqlite3_finalize(s.tls, stmt)
		freeSQL()
	}, nil
}

// effect is what a statement did, as far as a client and the tables see it.
type effect struct {
	Error   string
	Fields  []string
	Rows    []string
	Changes int64 // rows changed by it and by its triggers
	RowID   int64
}

func (e effect) String() string {
	if e.Error != "" {
		return e.Error
	}
	rows := strings.Join(e.Rows, " | ")
	if len(rows) > 200 {
		rows = rows[:200] + "…"
	}
	return fmt.Sprintf("%d changes, row id %d, %v %d rows: %s", e.Changes, e.RowID, e.Fields, len(e.Rows), rows)
}

// run executes the first statement of a text; value gives the parameter of a
// number and name.
func (s *sqliteDB) run(text string, value func(number int, name string) any) (e effect) {
	stmt, _, free, err := s.prepare(text)
	if err != nil {
		return effect{Error: err.Error()}
	}
	defer free()
	if stmt == 0 {
		return e
	}
	for i, name := range s.params(stmt) {
		number := int32(i + 1)
		switch v := value(i+1, name).(type) {
		case int:
			sqlite3.Xsqlite3_bind_int64(s.tls, stmt, number, sqlite3.Tsqlite3_int64(v))
		case string:
			p, free := s.text(v)
			defer free()
			sqlite3.Xsqlite3_bind_text(s.tls, stmt, number, p, int32(len(v)), 0)
		}
	}
	columns := int(sqlite3.Xsqlite3_column_count(s.tls, stmt))
	for i := range columns {
		e.Fields = append(e.Fields, libc.GoString(sqlite3.Xsqlite3_column_name(s.tls, stmt, int32(i))))
	}
	before := sqlite3.Xsqlite3_total_changes64(s.tls, s.db)
	stop := time.AfterFunc(2*time.Second, func() {
		tls := libc.NewTLS()
		defer tls.Close()
		sqlite3.Xsqlite3_interrupt(tls, s.db)
	})
	defer stop.Stop()
	for {
		rc := sqlite3.Xsqlite3_step(s.tls, stmt)
		if rc == sqlite3.SQLITE_DONE {
			break
		}
		if rc != sqlite3.SQLITE_ROW {
			e.Error = s.failure(rc).Error()
			break
		}
		var row []string
		for i := range columns {
			row = append(row, s.column(stmt, int32(i)))
		}
		e.Rows = append(e.Rows, strings.Join(row, ","))
	}
	e.Changes = sqlite3.Xsqlite3_total_changes64(s.tls, s.db) - before
	e.RowID = sqlite3.Xsqlite3_last_insert_rowid(s.tls, s.db)
	return e
}

func (s *sqliteDB) column(stmt uintptr, i int32) string {
	switch sqlite3.Xsqlite3_column_type(s.tls, stmt, i) {
	case sqlite3.SQLITE_NULL:
		return "NULL"
	case sqlite3.SQLITE_INTEGER:
		return strconv.FormatInt(sqlite3.Xsqlite3_column_int64(s.tls, stmt, i), 10)
	case sqlite3.SQLITE_FLOAT:
		return strconv.FormatFloat(float64(sqlite3.Xsqlite3_column_double(s.tls, stmt, i)), 'g', -1, 64) + "f"
	}
	kind := "'"
	if sqlite3.Xsqlite3_column_type(s.tls, stmt, i) == sqlite3.SQLITE_BLOB {
		kind = "x'"
	}
	p := sqlite3.Xsqlite3_column_blob(s.tls, stmt, i)
	n := int(sqlite3.Xsqlite3_column_bytes(s.tls, stmt, i))
	raw := ""
	if n > 0 {
		raw = string(libc.GoBytes(p, n))
	}
	if kind == "x'" {
		raw = hex.EncodeToString([]byte(raw))
	}
	return kind + raw + "'"
}

// content is all tables of the database, in words.
func (s *sqliteDB) content() string {
	var b strings.Builder
	none := func(int, string) any { return nil }
	for _, name := range s.tables() {
		b.WriteString(name + "\n")
		e := s.run("SELECT * FROM main."+quoteName(name)+" ORDER BY 1, 2, 3", none)
		if e.Error != "" {
			e = s.run("SELECT * FROM main."+quoteName(name)+" ORDER BY 1", none)
		}
		b.WriteString(e.Error + strings.Join(e.Rows, "\n") + "\n")
	}
	return b.String()
}

func (s *sqliteDB) tables() []string {
	e := s.run("SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlfence%' ORDER BY name", func(int, string) any { return nil })
	var names []string
	for _, row := range e.Rows {
		names = append(names, strings.Trim(row, "'"))
	}
	return names
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
