package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// scanned is what PostgreSQL's own scanner says of a text.
type scanned struct {
	statements int // stretches between semicolons outside of brackets that are not empty
	params     int // the highest $n
	balanced   bool
	atomic     bool // there may be a body of statements, in which semicolons divide nothing
}

// scan is false for ok where the scanner refuses the text.
func scan(text string) (s scanned, ok bool) {
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return s, false
	}
	result, err := pg.Scan(text)
	if err != nil {
		return s, false
	}
	s.balanced = true
	depth, empty := 0, true
	var open []pg.Token
	for _, t := range result.Tokens {
		switch t.Token {
		case pg.Token_SQL_COMMENT, pg.Token_C_COMMENT:
			continue
		case pg.Token_ASCII_40, pg.Token_ASCII_91: // ( [
			open = append(open, t.Token)
		case pg.Token_ASCII_41, pg.Token_ASCII_93: // ) ]
			if last := len(open) - 1; last < 0 || (open[last] == pg.Token_ASCII_40) != (t.Token == pg.Token_ASCII_41) {
				s.balanced = false
			} else {
				open = open[:last]
			}
		case pg.Token_PARAM:
			if n, err := strconv.Atoi(text[t.Start+1 : t.End]); err == nil {
				s.params = max(s.params, n)
			}
		case pg.Token_ATOMIC:
			s.atomic = true
		}
		depth = len(open)
		if t.Token == pg.Token_ASCII_59 && depth == 0 {
			empty = true
			continue
		}
		if empty {
			s.statements++
			empty = false
		}
	}
	s.balanced = s.balanced && len(open) == 0
	return s, true
}

// scannerComplaints lists what sqlgen's lexer has read otherwise than
// PostgreSQL's scanner. A text that sqlgen does not understand is refused and
// may be read as it likes.
func scannerComplaints(text string) (complaints []string) {
	s, ok := scan(text)
	plan := sqlgen.Analyze(sqlgen.PostgreSQL, text, sqlgen.StandardStrings(), sqlgen.SafeEncoding())
	if !ok || plan.Kind == sqlgen.KindUnknown {
		return nil
	}
	if !s.balanced {
		complaints = append(complaints, "its brackets do not match, and it is called "+plan.Kind.String())
	}
	if plan.Params != s.params {
		complaints = append(complaints, fmt.Sprintf("its highest parameter is $%d, not $%d", s.params, plan.Params))
	}
	statements := len(plan.Kinds())
	if plan.Kind == sqlgen.KindEmpty {
		statements = 0
	}
	if statements != s.statements && !s.atomic {
		complaints = append(complaints, fmt.Sprintf("it is %d statements, not %d", s.statements, statements))
	}
	return complaints
}
