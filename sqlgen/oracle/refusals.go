package main

import (
	"fmt"
	"regexp"
	"sort"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// refusals counts, by reason, the valid single writes that are not spliced.
type refusals struct {
	counts   map[string]int
	examples map[string][]string
}

var place = regexp.MustCompile(` at byte \d+$`)

func (r *refusals) add(plan *sqlgen.Plan, example string) {
	if r.counts == nil {
		r.counts, r.examples = map[string]int{}, map[string][]string{}
	}
	reason := plan.Strategy.String() + ": " + place.ReplaceAllString(plan.Reason, "")
	r.counts[reason]++
	r.examples[reason] = append(r.examples[reason], example)
}

// print lists the reasons, the commonest first, with all examples or with one.
func (r *refusals) print(all bool) {
	for _, reason := range byCount(r.counts) {
		fmt.Printf("  %5d %s\n", r.counts[reason], reason)
		for i, e := range r.examples[reason] {
			if all || i == 0 {
				fmt.Printf("        %s\n", e)
			}
		}
	}
}

func byCount(counts map[string]int) []string {
	var keys []string
	for k := range counts {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		if counts[keys[i]] != counts[keys[j]] {
			return counts[keys[i]] > counts[keys[j]]
		}
		return keys[i] < keys[j]
	})
	return keys
}
