package main

import (
	"fmt"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// tokens lists the tokens of a text as PostgreSQL's own scanner cuts them,
// comments included.
func tokens(text string) ([]string, error) {
	result, err := pg.Scan(text)
	if err != nil {
		return nil, err
	}
	list := make([]string, len(result.Tokens))
	for i, t := range result.Tokens {
		list[i] = text[t.Start:t.End]
	}
	return list, nil
}

// sameTokens reports an error unless the spliced text holds all tokens of the
// original, in their order and cut at the same places, with at most the given
// number of insertions between them.
func sameTokens(original, spliced string, insertions int) error {
	a, err := tokens(original)
	if err != nil {
		return fmt.Errorf("the scanner refuses the text: %w", err)
	}
	b, err := tokens(spliced)
	if err != nil {
		return fmt.Errorf("the scanner refuses the spliced text: %w", err)
	}
	if len(b) < len(a) {
		return fmt.Errorf("tokens are gone")
	}
	// fewest[i] is the fewest insertions with which the first i tokens of the
	// original and what was inserted make up the part of b read so far;
	// [0]: the last token of it is of the original, [1]: it is inserted.
	const none = 1 << 30
	type count [2]int
	fewest := make([]count, len(a)+1)
	for i := range fewest {
		fewest[i] = count{none, none}
	}
	fewest[0][0] = 0
	for j := range b {
		for i := min(j+1, len(a)); i >= 0; i-- {
			next := count{none, min(fewest[i][1], fewest[i][0]+1)}
			if i > 0 && a[i-1] == b[j] {
				next[0] = min(fewest[i-1][0], fewest[i-1][1])
			}
			fewest[i] = next
		}
	}
	switch f := min(fewest[len(a)][0], fewest[len(a)][1]); {
	case f >= none:
		return fmt.Errorf("tokens are changed or gone")
	case f > insertions:
		return fmt.Errorf("text was inserted in %d places, not %d", f, insertions)
	}
	return nil
}
