// Package repertoire plays all that a program does, with and without the fence,
// and compares what became of the rows.
package repertoire

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
)

// Operation is one thing that a program does.
type Operation struct {
	Name string
	// Do returns what the program's caller sees, which is compared by its %v form.
	Do func(ctx context.Context) (any, error)
	// Read marks an operation that writes nothing: it passes under any token.
	Read bool
}

// Program is the program opened on one database, with its tables created.
type Program struct {
	Operations []Operation
	io.Closer
}

// Subject is a program on an engine, before and after it was fenced.
type Subject struct {
	Engine        Engine
	Before, After func(ctx context.Context, dsn string) (*Program, error)
	// Apart are tables that are written without any token, and so are not compared.
	Apart []string
	// Random is what the library draws by lot, and so is not compared. It may be nil.
	Random *regexp.Regexp
	// Without names operations that the engine does not have.
	Without []string
}

const (
	resource = "nightly"
	current  = 7
)

var (
	valid = guard.Token{Resource: resource, Epoch: current}
	stale = guard.Token{Resource: resource, Epoch: current - 1}
)

// Play runs every operation of the subject, in order, on every server of its engine:
//
//   - before and after it was fenced, on twin databases: results and rows are the
//     same. The program before has a stale token in its contexts, which is the
//     control: nothing stops it.
//   - after it was fenced, on a third database, each operation first with a stale
//     token, which is refused and leaves all tables as they were, and then with a
//     valid one, which passes.
func Play(t *testing.T, s Subject) {
	s.Engine.each(t, func(t *testing.T, database func() string) {
		t.Run("valid", func(t *testing.T) { compare(t, s, database(), database()) })
		t.Run("stale", func(t *testing.T) { refuse(t, s, database()) })
	})
}

// compare plays the program before and after on a database each.
func compare(t *testing.T, s Subject, twin, fenced string) {
	before, twinRows := open(t, s, s.Before, twin)
	after, fencedRows := open(t, s, s.After, fenced)
	if len(before.Operations) != len(after.Operations) {
		t.Fatalf("%d operations before, %d after", len(before.Operations), len(after.Operations))
	}
	for i, op := range after.Operations {
		beforeCtx, afterCtx := guard.With(t.Context(), stale), guard.With(t.Context(), valid)
		want, err := before.Operations[i].Do(beforeCtx)
		if err != nil {
			t.Fatalf("%s, before: %v", op.Name, err)
		}
		got, err := op.Do(afterCtx)
		if err != nil {
			t.Fatalf("%s, after, with a valid token: %v", op.Name, err)
		}
		if g, w := fmt.Sprintf("%v", got), fmt.Sprintf("%v", want); g != w {
			t.Errorf("%s: returned %s, without the fence %s", op.Name, g, w)
		}
		if g, w := dump(t, s, fencedRows), dump(t, s, twinRows); g != w {
			t.Fatalf("%s: the tables are\n%s\nwithout the fence\n%s", op.Name, g, w)
		}
	}
}

// refuse plays the program after, each operation under a stale token first.
func refuse(t *testing.T, s Subject, dsn string) {
	program, db := open(t, s, s.After, dsn)
	writes := 0
	for _, op := range program.Operations {
		rows := dump(t, s, db)
		_, err := op.Do(guard.With(t.Context(), stale))
		switch {
		case op.Read && err != nil:
			t.Errorf("%s, with a stale token: %v; reads pass", op.Name, err)
		case !op.Read && !errors.Is(err, guard.ErrFenced):
			t.Errorf("%s, with a stale token: %v; want %v", op.Name, err, guard.ErrFenced)
		}
		if now := dump(t, s, db); now != rows {
			t.Errorf("%s, with a stale token, has written: the tables were\n%s\nand are\n%s", op.Name, rows, now)
		}
		if _, err := op.Do(guard.With(t.Context(), valid)); err != nil {
			t.Fatalf("%s, with a valid token after a stale one: %v", op.Name, err)
		}
		if !op.Read {
			writes++
			if dump(t, s, db) == rows {
				t.Errorf("%s changed no row, so its refusal shows nothing", op.Name)
			}
		}
	}
	if writes == 0 {
		t.Error("no operation wrote anything")
	}
}

// open opens the program, and beside it a bare handle for looking at the rows.
func open(t *testing.T, s Subject, opener func(context.Context, string) (*Program, error), dsn string) (*Program, *sql.DB) {
	t.Helper()
	db := s.Engine.look(t, dsn)
	p, err := opener(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	p.Operations = slices.DeleteFunc(p.Operations, func(op Operation) bool { return slices.Contains(s.Without, op.Name) })
	return p, db
}
