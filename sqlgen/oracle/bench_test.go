package main

import (
	"slices"
	"testing"
	"time"

	pg "github.com/pganalyze/pg_query_go/v6"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// smallUpdate is the statement that DESIGN §4a measures with.
const smallUpdate = "UPDATE jobs SET status=$1, updated_at=now() WHERE id=$2"

// BenchmarkSpliceBesideParse measures a cold splice (the text is read, walked and
// spliced) and the parse of the same text by PostgreSQL's own grammar, turn by
// turn in one run, and reports how many splices fit into a parse, by the medians
// of the turns: a machine that does something else meanwhile stretches some of
// them. It fails where fewer than ten fit.
func BenchmarkSpliceBesideParse(b *testing.B) {
	const batch = 50
	var splices, parses []time.Duration
	for b.Loop() {
		start := time.Now()
		for range batch {
			if _, err := sqlgen.Analyze(sqlgen.PostgreSQL, smallUpdate).Guarded(1); err != nil {
				b.Fatal(err)
			}
		}
		between := time.Now()
		for range batch {
			if _, err := pg.Parse(smallUpdate); err != nil {
				b.Fatal(err)
			}
		}
		splices, parses = append(splices, between.Sub(start)), append(parses, time.Since(between))
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Nanoseconds()) / batch
	}
	splice, parse := median(splices), median(parses)
	b.ReportMetric(splice, "ns/splice")
	b.ReportMetric(parse, "ns/parse")
	b.ReportMetric(parse/splice, "splices/parse")
	b.ReportMetric(0, "ns/op") // of both together: it says nothing
	if len(splices) >= 500 && parse/splice < 10 {
		b.Errorf("a splice takes 1/%.1f of the parse alone, want at most 1/10", parse/splice)
	}
}

// BenchmarkCacheHit: what a text costs that has been seen before.
func BenchmarkCacheHit(b *testing.B) {
	cache := sqlgen.NewCache(sqlgen.PostgreSQL)
	for range 3 {
		cache.Plan(smallUpdate)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = cache.Plan(smallUpdate).Guarded(1)
	}
}
