package sqlgen_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

const smallUpdate = `UPDATE jobs SET status=$1, updated_at=now() WHERE id=$2`

func TestCacheHitAllocatesNothing(t *testing.T) {
	for _, e := range []sqlgen.Engine{sqlgen.PostgreSQL, sqlgen.SQLite} {
		cache := sqlgen.NewCache(e)
		hit := func() {
			if _, err := cache.Plan(smallUpdate).Guarded(1); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 { // seen, kept, spliced
			hit()
		}
		if n := testing.AllocsPerRun(100, hit); n != 0 {
			t.Errorf("%v: %v allocations, expected none", e, n)
		}
		if kept := cache.Plan(smallUpdate); kept != cache.Plan(smallUpdate) {
			t.Errorf("%v: two plans for one text", e)
		}
	}
}

// CASES D19: a program that writes values into its texts must not fill the
// memory, nor drive out the texts that it sends again and again.
func TestCacheIsBounded(t *testing.T) {
	cache := sqlgen.NewCache(sqlgen.PostgreSQL)
	for range 2 {
		cache.Plan(smallUpdate)
	}
	kept := cache.Plan(smallUpdate)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	long := strings.Repeat(" ", 2000)
	for i := range 100_000 {
		cache.Plan(fmt.Sprintf("DELETE FROM jobs WHERE id IN (%d)%s", i, long))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("100,000 texts used once hold %d MB", grown>>20)
	}
	if cache.Plan(smallUpdate) != kept {
		t.Error("texts used once have driven out one that is used again and again")
	}
	for i := range 20_000 { // and used twice
		for range 2 {
			cache.Plan(fmt.Sprintf("DELETE FROM jobs WHERE id IN (%d)%s", i, long))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("20,000 texts used twice hold %d MB", grown>>20)
	}
	runtime.KeepAlive(cache)
}

func TestCacheServesManyAtOnce(t *testing.T) {
	cache := sqlgen.NewCache(sqlgen.SQLite)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 2000 {
				text := fmt.Sprintf("DELETE FROM jobs WHERE id = %d", i%300)
				p := cache.Plan(text)
				if p.Text() != text {
					t.Errorf("the plan of %s is that of %s", text, p.Text())
					return
				}
				if s, err := p.Guarded(1); err != nil || !strings.HasPrefix(s, text[:len("DELETE FROM jobs WHERE ")]) {
					t.Errorf("%s became %s, %v", text, s, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// TestTextsAreReadInLinearTime counts what the walk allocates for texts that
// are ten times as long as others. A walk that goes over the same tokens again
// and again would not allocate more, but the time limit of the test run is
// there for it: each of these texts would take hours.
func TestTextsAreReadInLinearTime(t *testing.T) {
	const n = 200_000
	for name, text := range map[string]string{
		"brackets":             "SELECT " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"nested WITH lists":    strings.Repeat("WITH a AS (", n) + "SELECT 1" + strings.Repeat(") SELECT 1", n),
		"nested writes":        "SELECT " + strings.Repeat("(UPDATE a ", n) + strings.Repeat(")", n),
		"AS":                   "SELECT 1 " + strings.Repeat("AS ", n) + strings.Repeat("INTO ", n),
		"EXPLAIN":              strings.Repeat("EXPLAIN ANALYZE ", n),
		"COPY":                 strings.Repeat("COPY (", n) + strings.Repeat(")", n),
		"comments that nest":   "SELECT 1 " + strings.Repeat("/*", n) + strings.Repeat("*/", n),
		"strings that go on":   "SELECT " + strings.Repeat("e'a'\n", n),
		"statements":           strings.Repeat("DELETE FROM d; ", n),
		"bodies":               strings.Repeat("CREATE FUNCTION f() BEGIN ATOMIC END; ", n),
		"dollars":              "SELECT " + strings.Repeat("$a$ $b$", n),
		"names like ours":      "DELETE FROM d WHERE " + strings.Repeat("sqlfence_k_7 + ", n) + "1",
		"rows":                 "INSERT INTO d VALUES (?, ?)" + strings.Repeat(", (?, ?)", n),
		"operators":            "SELECT " + strings.Repeat("+-*/ ", n) + "1",
		"named parameters":     "UPDATE d SET v = 1 WHERE " + strings.Repeat(":a + ", n) + ":b",
		"conditions":           "DELETE FROM d WHERE " + strings.Repeat("a OR ", n) + "b",
		"ON that is no upsert": "INSERT INTO d SELECT 1 FROM a " + strings.Repeat("JOIN b ON conflict ", n),
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range []sqlgen.Engine{sqlgen.PostgreSQL, sqlgen.SQLite} {
				p := sqlgen.Analyze(e, text)
				var many *sqlgen.TooManyParamsError
				if p.Strategy == sqlgen.Splice {
					if _, err := p.Guarded(1); err != nil && !errors.As(err, &many) {
						t.Error(err)
					}
				}
			}
		})
	}
}

func TestLongTextsAllocateInProportion(t *testing.T) {
	bytes := func(rows int) float64 {
		text := "INSERT INTO d VALUES (1, 'x')" + strings.Repeat(", (1, 'x')", rows)
		sqlgen.Analyze(sqlgen.PostgreSQL, text)
		for range 2 { // what was kept for the next text is gone then
			runtime.GC()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if sqlgen.Analyze(sqlgen.PostgreSQL, text).Strategy != sqlgen.Splice {
			t.Fatal("not spliced")
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(len(text))
	}
	if short, long := bytes(50_000), bytes(1_000_000); long > 2*short {
		t.Errorf("%.1f bytes for each byte of a text of 10 MB, and %.1f for one of 500 kB", long, short)
	}
}

func BenchmarkSpliceCold(b *testing.B) {
	for _, e := range []sqlgen.Engine{sqlgen.PostgreSQL, sqlgen.SQLite} {
		b.Run(e.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := sqlgen.Analyze(e, smallUpdate).Guarded(1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCacheHit(b *testing.B) {
	cache := sqlgen.NewCache(sqlgen.PostgreSQL)
	for range 3 {
		cache.Plan(smallUpdate)
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = cache.Plan(smallUpdate).Guarded(1)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = cache.Plan(smallUpdate).Guarded(1)
			}
		})
	})
}
