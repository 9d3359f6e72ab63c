package sqlgen_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

var code = regexp.MustCompile("`([^`]+)`")

// TestPublishedTableOfStatements holds docs/STATEMENTS.md to the code
// (CASES D23).
func TestPublishedTableOfStatements(t *testing.T) {
	doc, err := os.ReadFile("../docs/STATEMENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	engines := map[string]sqlgen.Engine{"## PostgreSQL": sqlgen.PostgreSQL, "## SQLite": sqlgen.SQLite, "## MySQL": sqlgen.MySQL}
	seen := map[sqlgen.Engine]map[sqlgen.Kind]bool{sqlgen.PostgreSQL: {}, sqlgen.SQLite: {}, sqlgen.MySQL: {}}
	var engine sqlgen.Engine
	for _, line := range strings.Split(string(doc), "\n") {
		if e, ok := engines[line]; ok {
			engine = e
		}
		cells := strings.Split(line, " | ")
		if engine == 0 || len(cells) != 4 || !strings.Contains(cells[0], "`") {
			continue
		}
		kind, strategy, tables := cells[1], cells[2], strings.TrimSuffix(cells[3], " |")
		for _, m := range code.FindAllStringSubmatch(cells[0], -1) {
			p := sqlgen.Analyze(engine, m[1])
			seen[engine][p.Kind] = true
			if p.Kind.String() != kind || p.Strategy.String() != strategy {
				t.Errorf("%v: %s\nis %v: %v (%s); the table says %s: %s", engine, m[1], p.Kind, p.Strategy, p.Reason, kind, strategy)
			}
			if got := written(p); got != tables && p.Kind != sqlgen.KindSeveral {
				t.Errorf("%v: %s\nwrites %s; the table says %s", engine, m[1], got, tables)
			}
			if p.Strategy == sqlgen.Refuse && (p.Reason == "" || p.Advice == "" || p.Verb == "") {
				t.Errorf("%v: %s\nis refused without a name, a reason or an advice: %q %q %q", engine, m[1], p.Verb, p.Reason, p.Advice)
			}
			if p.Kind != sqlgen.KindSeveral && p.Kind != sqlgen.KindEmpty && (len(p.Kinds()) != 1 || p.Kinds()[0] != p.Kind) {
				t.Errorf("%v: %s\nis one %v, and its kinds are %v", engine, m[1], p.Kind, p.Kinds())
			}
		}
	}
	for k := sqlgen.KindUnknown; k <= sqlgen.KindSeveral; k++ {
		if !seen[sqlgen.PostgreSQL][k] && !seen[sqlgen.SQLite][k] {
			t.Errorf("the tables have no statement of kind %v", k)
		}
		// What MySQL does not have: MERGE, writes in WITH, databases that are attached.
		if without := k == sqlgen.KindMerge || k == sqlgen.KindWriteInWith || k == sqlgen.KindAttach; seen[sqlgen.MySQL][k] == without {
			t.Errorf("the table of MySQL has statements of kind %v: %v", k, !without)
		}
	}
}

func written(p *sqlgen.Plan) string {
	if !p.Writes() {
		return "none"
	}
	if p.Tables == nil {
		return "not told"
	}
	var names []string
	for _, t := range p.Tables {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}
