package main

import (
	"fmt"
	"strings"
)

// aim is a result that sqlfence wants to reach on PostgreSQL.
type aim struct {
	what  string
	only  int // the one number of clients at which it is wanted, 0 for any
	least float64
	value func(r *results, target string, clients int) float64 // median of the ratios within the rounds
}

func ratio(o op, w, to way) func(*results, string, int) float64 {
	return func(r *results, target string, clients int) float64 {
		return spreadOf(r.series(cell{target, clients, o, w}, cell{target, clients, o, to})).median
	}
}

// updateToForeignKey compares what the fence takes from an UPDATE with what a
// foreign key takes from an INSERT.
func updateToForeignKey(r *results, target string, clients int) float64 {
	fence := r.series(cell{target, clients, update, guarded}, cell{target, clients, update, bare})
	key := r.series(cell{target, clients, insert, foreignKey}, cell{target, clients, insert, bare})
	for i := range fence {
		fence[i] /= key[i]
	}
	return spreadOf(fence).median
}

var aims = []aim{
	{what: "guarded UPDATE, of the bare driver, 1 client", only: 1, least: 0.85, value: ratio(update, guarded, bare)},
	{what: "guarded UPDATE, of the bare driver, 8 clients", only: 8, least: 0.75, value: ratio(update, guarded, bare)},
	{what: "guarded INSERT, of the INSERT with a foreign key", least: 0.90, value: ratio(insert, guarded, foreignKey)},
	{what: "what is left of an UPDATE by the fence, of what is left of an INSERT by a foreign key", least: 0.90, value: updateToForeignKey},
	{what: "guarded UPDATE, of the transaction that locks", least: 2.5, value: ratio(update, guarded, transaction)},
	{what: "guarded INSERT, of the transaction that locks", least: 2.5, value: ratio(insert, guarded, transaction)},
	{what: "UPDATE without a token, of the bare driver", least: 0.98, value: ratio(update, noToken, bare)},
	{what: "INSERT without a token, of the bare driver", least: 0.98, value: ratio(insert, noToken, bare)},
}

// wanted reports whether the aim is for this many clients.
func (a aim) wanted(clients int) bool { return a.only == 0 || a.only == clients }

// hasAims reports whether the aims are for this target: a local file has no
// round trips to save.
func hasAims(target string) bool { return strings.HasPrefix(target, "PostgreSQL") }

func (r *results) aimsTable(b *strings.Builder) {
	for _, t := range r.targets {
		if !hasAims(t.name) {
			continue
		}
		fmt.Fprintf(b, "\n## Aims, %s\n\n", t.name)
		r.header(b, "median of the ratios", "aim")
		for _, a := range aims {
			fmt.Fprintf(b, "| %s | ≥ %.2f ", a.what, a.least)
			for _, n := range r.options.clients {
				if !a.wanted(n) {
					b.WriteString("| ")
					continue
				}
				v := a.value(r, t.name, n)
				verdict := ""
				if v < a.least {
					verdict = ", **short**"
				}
				fmt.Fprintf(b, "| %.2f%s ", v, verdict)
			}
			b.WriteString("|\n")
		}
	}
}

// aimsMet reports whether every result reaches its aim.
func (r *results) aimsMet() bool {
	for _, t := range r.targets {
		for _, a := range aims {
			for _, n := range r.options.clients {
				if hasAims(t.name) && a.wanted(n) && a.value(r, t.name, n) < a.least {
					return false
				}
			}
		}
	}
	return true
}
