package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// cell is a rate that is measured once in each round.
type cell struct {
	place, way string
	clients    int
}

// results of a run.
type results struct {
	options   options
	places    []*place
	rates     map[cell][]float64 // pairs per second, by round
	handovers []*handover
	intervals []interval
	trips     []trip
}

func newResults(o options, places []*place) *results {
	return &results{options: o, places: places, rates: map[cell][]float64{}}
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

// ratio compares two ways in each round.
func (r *results) ratio(place, way, to string, clients int) spread {
	series := slices.Clone(r.rates[cell{place, way, clients}])
	for i, other := range r.rates[cell{place, to, clients}] {
		series[i] /= other
	}
	return spreadOf(series)
}

// markdown returns the tables, and what is needed to repeat them.
func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a lease costs\n\nWritten by `%s`. Clients and server share one machine, %d CPUs; %s, %s/%s.\n\n",
		r.options.command, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, p := range r.places {
		fmt.Fprintf(&b, "- %s: %s.\n", p.name, p.settings)
	}
	r.rateTables(&b)
	r.handoverTable(&b)
	r.intervalTable(&b)
	r.tripTable(&b)
	return b.String()
}

func (r *results) rateTables(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Acquire and release\n\nPairs per second, each client on a resource of its own: the median of %d rounds of %v s for each cell, and the ratio to the yardstick, "+
		"the first line, in the same round (lowest–highest); the ways interleaved. sqlfence is `Manager.TryAcquire` and `Lease.Release`: it mints a fencing token "+
		"that only grows, and moves the mark that guarded writes are held to. None of the others does; River's table is UNLOGGED, and empty after a crash.\n", r.options.rounds, r.options.seconds)
	for _, p := range r.places {
		fmt.Fprintf(b, "\n| %s | 1 client, per second | of the yardstick | %d clients, per second | of the yardstick |\n|---|---|---|---|---|\n", p.name, mostClients)
		for _, w := range p.ways {
			fmt.Fprintf(b, "| %s ", w.name)
			for _, clients := range clientCounts {
				fmt.Fprintf(b, "| %.0f | %s ", spreadOf(r.rates[cell{p.name, w.name, clients}]).median, r.ratio(p.name, w.name, p.ways[0].name, clients))
			}
			b.WriteString("|\n")
		}
	}
	b.WriteString("\n### Beside its peers\n\nsqlfence's rate divided by the peer's, in the same round; more than 1 means that sqlfence is faster.\n")
	fmt.Fprintf(b, "\n| peer | on | 1 client | %d clients |\n|---|---|---|---|\n", mostClients)
	for _, p := range r.places {
		for _, w := range p.ways {
			if !w.peer {
				continue
			}
			fmt.Fprintf(b, "| %s | %s ", w.name, p.name)
			for _, clients := range clientCounts {
				fmt.Fprintf(b, "| %s ", r.ratio(p.name, sqlfence, w.name, clients))
			}
			b.WriteString("|\n")
		}
	}
}

func (r *results) handoverTable(b *strings.Builder) {
	fmt.Fprintf(b, "\n## From a release to a waiter's acquire\n\nMilliseconds from the sending of a release until `Manager.Acquire` returns in another manager with connections of its own: "+
		"median (lowest–highest) of %d runs. Where nobody tells of releases, a waiter looks after a random pause that grows to between half a second and a second; "+
		"the poller here had waited for %v to %v.\n\n", r.options.runs, r.options.waited, 3*r.options.waited)
	b.WriteString("| store | told by | handovers in a run | p50 | p99 |\n|---|---|---|---|---|\n")
	for _, h := range r.handovers {
		fmt.Fprintf(b, "| %s | %s | %d ", h.place, h.how, len(h.runs[0]))
		for _, q := range []float64{0.5, 0.99} {
			var series []float64
			for _, run := range h.runs {
				series = append(series, float64(quantile(run, q))/float64(time.Millisecond))
			}
			s := spreadOf(series)
			fmt.Fprintf(b, "| %.1f (%.1f–%.1f) ", s.median, s.min, s.max)
		}
		b.WriteString("|\n")
	}
}

func (r *results) intervalTable(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Renewals\n\nCounted while one manager keeps that many leases alive: what it sends in one interval, a third of the TTL, on average over %d. "+
		"A statement of Redis is a command; several go in one round trip. The round trip more on PostgreSQL is pgx's, which asks a connection of database/sql that was idle for a second whether it lives.\n\n", r.options.intervals)
	b.WriteString("| store | leases | renewals per interval | statements | round trips |\n|---|---|---|---|---|\n")
	for _, i := range r.intervals {
		fmt.Fprintf(b, "| %s | %d | %.0f | %s | %s |\n", i.place, i.leases, i.renewed, trim(i.statements), r.onWire(i.place, trim(i.trips)))
	}
}

func (r *results) tripTable(b *strings.Builder) {
	b.WriteString("\n## Round trips\n\nStatements and round trips of each operation, counted on the wire.\n\n| operation ")
	var operations []string
	for _, t := range r.trips {
		if !slices.Contains(operations, t.operation) {
			operations = append(operations, t.operation)
		}
	}
	for _, p := range r.places {
		fmt.Fprintf(b, "| %s ", p.name)
	}
	b.WriteString("|\n" + strings.Repeat("|---", len(r.places)+1) + "|\n")
	for _, operation := range operations {
		fmt.Fprintf(b, "| %s ", operation)
		for _, p := range r.places {
			for _, t := range r.trips {
				if t.place == p.name && t.operation == operation {
					fmt.Fprintf(b, "| %d in %s ", t.statements, r.onWire(t.place, fmt.Sprint(t.trips)))
				}
			}
		}
		b.WriteString("|\n")
	}
	b.WriteString("\nSQLite's are calls of a library: BEGIN IMMEDIATE, what is asked before, and COMMIT among them.\n")
}

// onWire is what to say of round trips where there are none.
func (r *results) onWire(place, n string) string {
	for _, p := range r.places {
		if p.name == place && !p.wire {
			return "no wire"
		}
	}
	return n
}

// trim writes a number without decimals that say nothing.
func trim(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }
