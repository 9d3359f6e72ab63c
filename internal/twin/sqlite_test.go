package twin_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/sqlfence/sqlfence/sqlgen"
)

const sqliteTwinSchema = `
CREATE TABLE d (id INTEGER PRIMARY KEY, v TEXT, n NUMERIC, r REAL, b BLOB, x, i INTEGER DEFAULT 7, u TEXT COLLATE NOCASE UNIQUE);
CREATE INDEX d_v ON d (v);
INSERT INTO d (id, v, n, r, b, x, u) VALUES (1, 'a', '1.0', 2, x'00', '1', 'one'), (2, 'b', 'y', '2.5', 'z', 1, 'two'), (5, NULL, NULL, NULL, NULL, NULL, 'five');
CREATE TABLE e (a, b);
INSERT INTO e VALUES (1, 'x'), (2, 'y'), (3, 'z'), ('4', NULL), (5.0, x'05');
CREATE TABLE auto (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT);
INSERT INTO auto VALUES (9, 'nine'); DELETE FROM auto;
CREATE TABLE g (a INTEGER, twice INTEGER GENERATED ALWAYS AS (a * 2) STORED, thrice AS (a * 3));
INSERT INTO g (a) VALUES (1), (2);
CREATE TABLE w (k TEXT, j INTEGER, v, PRIMARY KEY (k, j)) WITHOUT ROWID;
INSERT INTO w VALUES ('a', 1, 1), ('a', 2, 2), ('b', 1, 3);
CREATE TABLE st (a INTEGER, b REAL, c ANY) STRICT;
CREATE TABLE c (id INTEGER PRIMARY KEY CHECK (id < 100), p INTEGER NOT NULL);
INSERT INTO c VALUES (1, 1), (2, 2);
CREATE TABLE "where" ("set" INTEGER, "update" TEXT);
INSERT INTO "where" VALUES (1, 'a');
CREATE TABLE log (what TEXT, v);
CREATE TRIGGER c_ins BEFORE INSERT ON c BEGIN INSERT INTO log VALUES ('ins', new.id); END;
CREATE TRIGGER c_upd AFTER UPDATE ON c BEGIN INSERT INTO log VALUES ('upd', old.p || '>' || new.p); END;
CREATE TRIGGER c_del AFTER DELETE ON c BEGIN DELETE FROM e WHERE a = old.id; END;
CREATE VIEW ev AS SELECT a, b FROM e;
CREATE TRIGGER ev_ins INSTEAD OF INSERT ON ev BEGIN INSERT INTO e VALUES (new.a, new.b || '!'); END;
CREATE TRIGGER ev_upd INSTEAD OF UPDATE ON ev BEGIN UPDATE e SET b = new.b WHERE a = old.a; END;
CREATE TRIGGER ev_del INSTEAD OF DELETE ON ev BEGIN DELETE FROM e WHERE a = old.a; END;
CREATE VIRTUAL TABLE ft USING fts5(t, k UNINDEXED);
INSERT INTO ft VALUES ('the quick fox', 1), ('a lazy dog', 2);
CREATE TABLE xs (a INTEGER, b TEXT);
CREATE TABLE ys (a INTEGER, b TEXT);
INSERT INTO ys VALUES (1, 'p'), (2, 'q');
INSERT INTO main.sqlfence_fences (resource, high_water, grant_id) VALUES ('job', 7, 70), ('other', 3, 30);
`

// sqliteTwin is one of several databases that began alike.
type sqliteTwin struct {
	conn *sql.Conn
	t    *testing.T
}

func newSQLiteTwin(t *testing.T) *sqliteTwin {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); db.Close() })
	tw := &sqliteTwin{conn, t}
	tw.mustExec(sqlgen.Schema(sqlgen.SQLite))
	tw.mustExec(sqliteTwinSchema)
	return tw
}

func (tw *sqliteTwin) mustExec(text string) {
	tw.t.Helper()
	if _, err := tw.conn.ExecContext(context.Background(), text); err != nil {
		tw.t.Fatalf("%s: %v", text, err)
	}
}

// run executes the text and returns all that a program can see of it.
func (tw *sqliteTwin) run(text string, args []any) string {
	rows, err := tw.query(text, args)
	if err != nil {
		return "error: " + err.Error()
	}
	counts, err := tw.query("SELECT changes(), total_changes(), last_insert_rowid()", nil)
	if err != nil {
		tw.t.Fatal(err)
	}
	return rows + "changes, total changes, row id: " + counts
}

// query returns the rows with the types of their values, one a line.
func (tw *sqliteTwin) query(text string, args []any) (string, error) {
	rows, err := tw.conn.QueryContext(context.Background(), text, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for rows.Next() {
		values, places := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			places[i] = &values[i]
		}
		if err := rows.Scan(places...); err != nil {
			return "", err
		}
		for i, v := range values {
			fmt.Fprintf(&b, "%s=%T:%q ", columns[i], v, fmt.Sprint(v))
		}
		b.WriteByte('\n')
	}
	return b.String(), rows.Err()
}

// dump returns the contents of all tables with the storage class of every
// value.
func (tw *sqliteTwin) dump() string {
	tw.t.Helper()
	tables, err := tw.conn.QueryContext(context.Background(), `SELECT name, (
			SELECT group_concat('typeof("' || c.name || '"), quote("' || c.name || '")') FROM pragma_table_xinfo(m.name) AS c)
		FROM sqlite_schema AS m WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name`)
	if err != nil {
		tw.t.Fatal(err)
	}
	var texts []string
	for tables.Next() {
		var name, columns string
		if err := tables.Scan(&name, &columns); err != nil {
			tw.t.Fatal(err)
		}
		texts = append(texts, `SELECT '`+name+`', `+columns+` FROM "`+name+`"`)
	}
	if err := tables.Err(); err != nil {
		tw.t.Fatal(err)
	}
	var b strings.Builder
	for _, text := range texts {
		rows, err := tw.query(text, nil)
		if err != nil {
			tw.t.Fatalf("%s: %v", text, err)
		}
		b.WriteString(rows)
	}
	return b.String()
}

// TestSQLiteGuardedWritesDoWhatTheBareOnesDo runs each statement on a database
// as it is, and spliced on twins: with the fence open it does the same; shut,
// nothing (SPEC G1, G5).
func TestSQLiteGuardedWritesDoWhatTheBareOnesDo(t *testing.T) {
	untouched := newSQLiteTwin(t).dump()
	valid, fenced := []any{"job", int64(7), int64(70)}, [][]any{
		{"job", int64(6), int64(70)}, {"job", int64(7), int64(71)}, {"job", int64(8), int64(70)}, {"nobody", int64(7), int64(70)},
	}
	for i, c := range sqliteTwinStatements() {
		t.Run(c.text[:min(len(c.text), 60)], func(t *testing.T) {
			p := sqlgen.Analyze(sqlgen.SQLite, c.text)
			if p.Strategy != sqlgen.Splice {
				t.Fatalf("%s\nis not spliced: %v: %s", c.text, p.Strategy, p.Reason)
			}
			one, err := p.Guarded(1)
			if err != nil {
				t.Fatal(err)
			}
			two, err := p.Guarded(2)
			if err != nil {
				t.Fatal(err)
			}
			bare, open, both := newSQLiteTwin(t), newSQLiteTwin(t), newSQLiteTwin(t)
			want := bare.run(c.text, c.args)
			if strings.HasPrefix(want, "error") != c.fails {
				t.Fatalf("%s\non its own gave %s", c.text, want)
			}
			if got := open.run(one, slices.Concat(c.args, valid)); got != want {
				t.Errorf("%s\ngave    %s\nspliced %s\n%s", c.text, want, got, one)
			}
			if got := both.run(two, slices.Concat(c.args, valid, []any{"other", int64(3), int64(30)})); got != want {
				t.Errorf("%s\ngave    %s\nspliced %s\n%s", c.text, want, got, two)
			}
			after := bare.dump()
			if after == untouched && !c.fails && !c.none {
				t.Errorf("%s\nchanges nothing: it tests nothing", c.text)
			}
			for _, tw := range []*sqliteTwin{open, both} {
				if got := tw.dump(); got != after {
					t.Errorf("%s\nleft %s\nspliced %s", c.text, after, got)
				}
			}
			shut := newSQLiteTwin(t)
			stale := fenced[i%len(fenced)]
			if got := shut.run(one, slices.Concat(c.args, stale)); !c.fails && !c.none && !strings.HasPrefix(got, "changes") {
				t.Errorf("%s\nunder a stale token returned %s", c.text, got)
			}
			shut.run(two, slices.Concat(c.args, valid, stale))
			shut.run(two, slices.Concat(c.args, stale, valid))
			if got := shut.dump(); got != untouched {
				t.Errorf("%s\nunder a stale token changed the tables to %s", c.text, got)
			}
		})
	}
}
