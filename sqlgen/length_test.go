package sqlgen_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// BenchmarkPerByte measures what a byte of a bulk insert costs in a text of
// 10 KB and in one of 10 MB, turn by turn in one run, and reports the ratio of
// the medians: the time is linear where it is about 1. Each turn reads as many
// bytes, so that what else the machine does stretches both alike.
func BenchmarkPerByte(b *testing.B) {
	for _, c := range []struct {
		name   string
		engine sqlgen.Engine
		row    string
	}{
		{"PostgreSQL", sqlgen.PostgreSQL, "(1, 'a value of some length', DEFAULT, now(), NULL)"},
		{"SQLite", sqlgen.SQLite, "(1, 'a value of some length', x'00ff', 2.5e3, NULL)"},
		{"MySQL", sqlgen.MySQL, "(1, 'a value of some length', 0x00ff, 2.5e3, NULL)"},
	} {
		b.Run(c.name, func(b *testing.B) {
			text := func(size int) string {
				return "INSERT INTO jobs (id, v, w, at, n) VALUES " + c.row + strings.Repeat(", "+c.row, size/(len(c.row)+2)) + " RETURNING id"
			}
			short, long := text(10<<10), text(10<<20)
			perByte := func(text string, times int) float64 {
				began := time.Now()
				for range times {
					if _, err := sqlgen.Analyze(c.engine, text).Guarded(1); err != nil {
						b.Fatal(err)
					}
				}
				return float64(time.Since(began).Nanoseconds()) / float64(times*len(text))
			}
			var shorts, longs []float64
			for b.Loop() {
				shorts = append(shorts, perByte(short, len(long)/len(short)))
				longs = append(longs, perByte(long, 1))
			}
			slices.Sort(shorts)
			slices.Sort(longs)
			s, l := shorts[len(shorts)/2], longs[len(longs)/2]
			b.ReportMetric(s, "ns/B_of_10_KB")
			b.ReportMetric(l, "ns/B_of_10_MB")
			b.ReportMetric(l/s, "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
