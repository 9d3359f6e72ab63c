package main

import (
	"path"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// group is statements that belong together: replayed in order on one database.
type group struct {
	Name       string
	Statements []statement
}

// groups cuts the corpora of one dialect into what shares a schema: a file of a
// regression suite, an example with its schema and its queries.
func groups(statements []statement, dialect string) []group {
	byName := map[string]*group{}
	var order []string
	for _, s := range statements {
		if s.Dialect != dialect {
			continue
		}
		name := s.Corpus + " " + groupOf(s)
		if byName[name] == nil {
			byName[name] = &group{Name: name}
			order = append(order, name)
		}
		byName[name].Statements = append(byName[name].Statements, s)
	}
	var list []group
	for _, name := range order {
		g := byName[name]
		// Schemas first. The same statement often lies in one file per driver.
		sort.SliceStable(g.Statements, func(i, j int) bool {
			return isSchema(g.Statements[i]) && !isSchema(g.Statements[j])
		})
		if strings.HasPrefix(name, "sqlc") {
			seen := map[string]bool{}
			kept := g.Statements[:0]
			for _, s := range g.Statements {
				if !seen[s.SQL] {
					kept = append(kept, s)
				}
				seen[s.SQL] = true
			}
			g.Statements = kept
		}
		list = append(list, *g)
	}
	return list
}

var (
	sqlcCase   = regexp.MustCompile(`^sqlc/(?:examples/[^/]+|internal/endtoend/testdata/[^/]+)`)
	schemaPath = regexp.MustCompile(`schema|migration|/\d+_`)
)

func groupOf(s statement) string {
	if c := sqlcCase.FindString(s.File); c != "" {
		return c
	}
	if strings.HasPrefix(s.File, "bun/") {
		return "bun" // a snapshot each
	}
	return s.File
}

func isSchema(s statement) bool {
	return sqlcCase.MatchString(s.File) && schemaPath.MatchString(path.Base(path.Dir(s.File))+"/"+path.Base(s.File))
}

var (
	sqlcParam = regexp.MustCompile(`sqlc\.(?:n?arg|slice)\s*\(\s*['"]?(\w+)['"]?\s*\)`)
	atParam   = regexp.MustCompile(`([^@\w<])@([a-zA-Z_]\w*)`)
	sqlcEmbed = regexp.MustCompile(`sqlc\.embed\s*\(\s*(\w+)\s*\)`)
	bare      = regexp.MustCompile(`\?[^\d]|\?$`)
	given     = regexp.MustCompile(`[$?](\d+)`)
)

// asSent turns the source of a statement into what is sent: sqlc replaces its
// own functions by parameters before the program is compiled, and snapshots mask
// what changes from run to run.
func asSent(s statement) string {
	text := strings.NewReplacer("[TIME]", "'2026-01-02 03:04:05+00'").Replace(s.SQL)
	if !strings.HasPrefix(s.Corpus, "sqlc") || isSchema(s) {
		return text
	}
	text = sqlcEmbed.ReplaceAllString(text, "$1.*")
	sign := "$"
	if s.Dialect != "postgres" {
		sign = "?"
		if bare.MatchString(text) {
			return sqlcParam.ReplaceAllString(text, "?")
		}
	}
	next, numbers := 0, map[string]string{}
	for _, m := range given.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		next = max(next, n)
	}
	number := func(name string) string {
		if numbers[name] == "" {
			next++
			numbers[name] = sign + strconv.Itoa(next)
		}
		return numbers[name]
	}
	text = sqlcParam.ReplaceAllStringFunc(text, func(m string) string { return number(sqlcParam.FindStringSubmatch(m)[1]) })
	return atParam.ReplaceAllStringFunc(text, func(m string) string {
		parts := atParam.FindStringSubmatch(m)
		return parts[1] + number(parts[2])
	})
}
