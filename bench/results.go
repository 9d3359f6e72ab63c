package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// cell is one field of the table: what is measured once in each round.
type cell struct {
	target  string
	clients int
	op      op
	way     way
}

// results of a run.
type results struct {
	options   options
	targets   []targetInfo
	perSecond map[cell][]float64 // by round
	splicing  []splicing
}

// targetInfo is what the tables tell of a target.
type targetInfo struct{ name, settings string }

func newResults(o options, targets []*target) *results {
	r := &results{options: o, perSecond: map[cell][]float64{}}
	for _, t := range targets {
		r.targets = append(r.targets, targetInfo{t.name, t.settings})
	}
	return r
}

func (r *results) add(c cell, perSecond float64) {
	r.perSecond[c] = append(r.perSecond[c], perSecond)
}

// spread is the median of a series, and its extremes.
type spread struct{ median, min, max float64 }

func spreadOf(series []float64) spread {
	s := slices.Sorted(slices.Values(series))
	middle := s[len(s)/2]
	if len(s)%2 == 0 {
		middle = (middle + s[len(s)/2-1]) / 2
	}
	return spread{middle, s[0], s[len(s)-1]}
}

func (s spread) String() string { return fmt.Sprintf("%.2f (%.2f–%.2f)", s.median, s.min, s.max) }

// series returns the ratio of two cells in each round.
func (r *results) series(c, to cell) []float64 {
	ratios := make([]float64, len(r.perSecond[c]))
	for i := range ratios {
		ratios[i] = r.perSecond[c][i] / r.perSecond[to][i]
	}
	return ratios
}

// toBare returns the ratio of a cell to the bare driver.
func (r *results) toBare(c cell) spread {
	return spreadOf(r.series(c, cell{c.target, c.clients, c.op, bare}))
}

// markdown returns the tables, and what is needed to repeat them.
func (r *results) markdown() string {
	var b strings.Builder
	shared := "All clients write under one lease (-resource shared): many writers, one owner."
	if r.options.own {
		shared = "Each client writes under a lease of its own (-resource own)."
	}
	fmt.Fprintf(&b, "# What the fence costs\n\nWritten by `%s` in the folder bench.\n\n", r.options.command)
	fmt.Fprintf(&b, "Writes per second as a ratio to the bare driver in the same round: median (lowest–highest) of %d rounds of %v s for each cell, the ways interleaved. "+
		"1.00 is the speed of the bare driver; higher is better. %s Each client updates a row of its own, so they do not wait for each other's rows. "+
		"Clients and server share one machine, %d CPUs; %s, %s/%s.\n\n",
		r.options.rounds, r.options.seconds, shared, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	b.WriteString("![chart](results.svg)\n")
	for _, t := range r.targets {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", t.name, t.settings)
		for o := range opNames {
			r.table(&b, t.name, op(o))
		}
	}
	r.splicingTable(&b)
	r.aimsTable(&b)
	b.WriteString(legend)
	return b.String()
}

const legend = `
## The ways

- **bare driver**: what the others are compared with.
- **sqlfence, no token**: the same statement through sqlfence; the context carries no token, so the text is sent as it is.
- **sqlfence, with a token**: the guarded write; the fence is spliced into the statement.
- **the same fence, written by hand**: the text that sqlfence sends, given to the bare driver. The difference to the line above is the Go side.
- **transaction that locks the fence's row**: BEGIN, SELECT … FOR SHARE of the fence's row, the write, COMMIT (SQLite: BEGIN IMMEDIATE and a plain SELECT). What one does without sqlfence.
- **bare driver, with a foreign key**: the engine's own price for a promise of the same kind. With -resource shared, all rows refer to one parent.
`

// header writes the columns: one for each number of clients.
func (r *results) header(b *strings.Builder, first ...string) {
	for _, f := range first {
		b.WriteString("| " + f + " ")
	}
	for _, n := range r.options.clients {
		fmt.Fprintf(b, "| %s ", clientsText(n))
	}
	b.WriteString("|\n|" + strings.Repeat("---|", len(first)+len(r.options.clients)) + "\n")
}

func clientsText(n int) string {
	if n == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", n)
}

func (r *results) table(b *strings.Builder, target string, o op) {
	b.WriteString("\n")
	r.header(b, opNames[o])
	fmt.Fprintf(b, "| %s, writes per second ", wayNames[bare])
	for _, n := range r.options.clients {
		fmt.Fprintf(b, "| %.0f ", spreadOf(r.perSecond[cell{target, n, o, bare}]).median)
	}
	b.WriteString("|\n")
	for _, w := range ways[o][1:] {
		b.WriteString("| " + wayNames[w] + " ")
		for _, n := range r.options.clients {
			fmt.Fprintf(b, "| %v ", r.toBare(cell{target, n, o, w}))
		}
		b.WriteString("|\n")
	}
}

func (r *results) splicingTable(b *strings.Builder) {
	b.WriteString("\n## Splicing\n\nThe Go side of one guarded write: the first time that a text is seen, and after.\n\n" +
		"| engine | text | cold | cached |\n|---|---|---|---|\n")
	for _, s := range r.splicing {
		fmt.Fprintf(b, "| %s | %s | %v | %v |\n", s.engine, s.text, s.cold, s.cached)
	}
}

func (c cost) String() string {
	return fmt.Sprintf("%.0f ns, %.0f allocations", c.nanoseconds, c.allocations)
}
