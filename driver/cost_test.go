package driver_test

import (
	"context"
	"database/sql/driver"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// nullConn does nothing, without allocating.
type nullConn struct{ bareConn }

func (nullConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

func (nullConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	return answer(query), nil
}

var (
	nullArgs = []driver.NamedValue{{Ordinal: 1, Value: "x"}, {Ordinal: 2, Value: int64(1)}}
	nullText = "UPDATE jobs SET status = $1 WHERE id = $2"
)

func nullExecer(t testing.TB) driver.ExecerContext {
	w := wrapped(t, nullConn{})
	return w.(driver.ExecerContext)
}

// SPEC G7: what the fence adds to a statement on this side of the wire.
func TestAllocationsPerStatement(t *testing.T) {
	e := nullExecer(t)
	ctx := guard.With(t.Context(), guard.Token{Resource: "job-42", Epoch: 70_000, Grant: 1 << 60})
	exec := func(ctx context.Context) func() {
		return func() {
			if _, err := e.ExecContext(ctx, nullText, nullArgs); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := testing.AllocsPerRun(100, exec(ctx)); n > 4 {
		t.Errorf("a guarded statement allocates %v times, want at most 4", n)
	}
	if n := testing.AllocsPerRun(100, exec(t.Context())); n > 0 {
		t.Errorf("an unguarded statement allocates %v times, want 0", n)
	}
}

func BenchmarkExec(b *testing.B) {
	ctx := guard.With(b.Context(), guard.Token{Resource: "job-42", Epoch: 70_000, Grant: 1 << 60})
	for name, x := range map[string]struct {
		e   driver.ExecerContext
		ctx context.Context
	}{
		"bare":     {nullConn{}, b.Context()},
		"no token": {nullExecer(b), b.Context()},
		"token":    {nullExecer(b), ctx},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.e.ExecContext(x.ctx, nullText, nullArgs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestEnginesOfTheBenchmark(t *testing.T) {
	if p := sqlgen.Analyze(sqlgen.PostgreSQL, nullText); p.Strategy != sqlgen.Splice {
		t.Errorf("the text of the benchmark is not spliced, but %s", p.Strategy)
	}
}
