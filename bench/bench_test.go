package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
)

// runShort runs the program with these arguments and returns what it wrote.
func runShort(t *testing.T, args ...string) (markdown, chart string) {
	t.Helper()
	dir := t.TempDir()
	args = append([]string{"-short", "-clients", "1,2", "-out", dir}, args...)
	o, err := parseFlags(args)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	return read("RESULTS.md"), read("results.svg")
}

// checkComplete fails unless the table has a row for each way, and the chart
// is XML.
func checkComplete(t *testing.T, markdown, chart string) {
	t.Helper()
	for _, want := range append([]string{"2 clients", "## Splicing", "| UPDATE ", "| INSERT "}, wayNames[:]...) {
		if !strings.Contains(markdown, want) {
			t.Errorf("RESULTS.md lacks %q:\n%s", want, markdown)
		}
	}
	if strings.Contains(markdown, "NaN") || strings.Contains(chart, "NaN") || strings.Contains(chart, "Inf") {
		t.Errorf("a number is missing:\n%s\n%s", markdown, chart)
	}
	for d := xml.NewDecoder(strings.NewReader(chart)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("results.svg: %v", err)
		}
	}
}

func TestAShortRunOnSQLiteIsComplete(t *testing.T) {
	markdown, chart := runShort(t, "-engines", "sqlite", "-resource", "own")
	checkComplete(t, markdown, chart)
}

func TestAShortRunOnPostgreSQLIsComplete(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		markdown, chart := runShort(t, "-engines", "postgres", "-dsn", dsn)
		checkComplete(t, markdown, chart)
		if !strings.Contains(markdown, "## Aims, PostgreSQL") {
			t.Errorf("RESULTS.md lacks the aims:\n%s", markdown)
		}
		if strings.Contains(markdown, dsn) {
			t.Errorf("RESULTS.md tells the URL:\n%s", markdown)
		}
	})
}

func TestTheMedianOfRatiosIsNotMovedByOneBadRound(t *testing.T) {
	r := newResults(options{}, nil)
	fast, slow := cell{way: bare}, cell{way: guarded}
	for _, round := range [][2]float64{{100, 90}, {1000, 900}, {100, 10}} {
		r.add(fast, round[0])
		r.add(slow, round[1])
	}
	if got, want := r.toBare(slow), (spread{0.9, 0.1, 0.9}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := spreadOf([]float64{4, 1, 3, 2}).median, 2.5; got != want {
		t.Errorf("median of four is %v, want %v", got, want)
	}
}

func TestAResultBelowItsAimIsSeen(t *testing.T) {
	for guardedSpeed, met := range map[float64]bool{90: true, 80: false} {
		r := newResults(options{clients: []int{1}}, []*target{{name: "PostgreSQL 15.0"}})
		for o := range opNames {
			for _, w := range ways[op(o)] {
				speed := map[way]float64{bare: 100, noToken: 99, guarded: guardedSpeed, byHand: 90, transaction: 30, foreignKey: 85}[w]
				r.add(cell{"PostgreSQL 15.0", 1, op(o), w}, speed)
			}
		}
		if got := r.aimsMet(); got != met {
			t.Errorf("guarded at %v of 100: aims met is %v, want %v", guardedSpeed, got, met)
		}
		if got := strings.Contains(r.markdown(), "**short**"); got == met {
			t.Errorf("guarded at %v of 100: the table says short: %v, want %v", guardedSpeed, got, !met)
		}
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-engines", "oracle"}, {"-clients", "0"}, {"-clients", "many"}, {"-resource", "none"}, {"-rounds", "0"}, {"-seconds", "-1"},
	} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%v: accepted", args)
		}
	}
}
