package sqlgen

import "unicode/utf8"

// inserted is a piece of a spliced text that is not the user's.
type inserted struct{ start, end int }

// Position returns which place of the user's text is meant by one of the text with
// the fence of n tokens, as [Plan.Guarded] returns it. Places are PostgreSQL's: in
// characters, and the first one is 1. A place within what was inserted is the one
// where it was inserted; 0 and what lies behind the end is returned as it is.
//
// Drivers that write values into the text bring widths, the number of characters of
// each value that takes the place of $1, $2, …: with them, place and result are those
// of the texts as they were sent.
func (p *Plan) Position(n, place int, widths []int) int {
	if place <= 0 || p.Strategy != Splice || n < 1 {
		return place
	}
	var pieces []inserted
	text := p.splice(n, &pieces)
	type placed struct{ start, end, num int }
	var params []placed
	if widths != nil {
		l := lexer{text: text, standardStrings: p.options.standardStrings, safeEncoding: p.options.safeEncoding}
		if p.rules.lex(&l) != nil {
			return 0
		}
		for _, p := range l.params {
			if t := &l.tokens[p.at]; 0 < p.num && int(p.num) <= len(widths) {
				params = append(params, placed{int(t.start), int(t.end()), int(p.num)})
			}
		}
	}

	at, left, users := 0, place-1, 1 // bytes gone by, characters still to go, and the user's among those gone by
	// walk goes to a byte of the text, and reports whether the place lies before it.
	walk := func(to int, ours bool) bool {
		for at < to {
			width, end := 0, to
			switch {
			case len(params) > 0 && params[0].start == at:
				width, end = widths[params[0].num-1], params[0].end
				params = params[1:]
			case len(params) > 0 && params[0].start < to:
				end = params[0].start
				fallthrough
			default:
				width = utf8.RuneCountInString(text[at:end])
			}
			if left < width {
				if !ours {
					users += left
				}
				return true
			}
			at, left = end, left-width
			if !ours {
				users += width
			}
		}
		return false
	}
	for _, piece := range pieces {
		if walk(piece.start, false) || walk(piece.end, true) {
			return users
		}
	}
	if walk(len(text), false) {
		return users
	}
	return users + left // behind the end
}
