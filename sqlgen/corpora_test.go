package sqlgen_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// corpusStatement is a line of a corpus: SQL that a real program or a real test
// suite sends.
type corpusStatement struct {
	Dialect string `json:"dialect"` // postgres, mysql or sqlite
	SQL     string `json:"sql"`
	Valid   *bool  `json:"pg17_parse_ok"` // to PostgreSQL 17; nil: not tried
}

// corpora returns the statements by corpus: of the folder that
// SQLFENCE_CORPORA names, else of ../shared/corpora beside the repository, else
// of testdata.
func corpora(t testing.TB) map[string][]corpusStatement {
	t.Helper()
	folders := []string{"../../shared/corpora", "testdata/corpora"}
	if named := os.Getenv("SQLFENCE_CORPORA"); named != "" {
		folders = []string{named}
	}
	all := make(map[string][]corpusStatement)
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.jsonl*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name, _, _ := strings.Cut(filepath.Base(file), ".")
			all[name] = readCorpus(t, file)
		}
		if len(all) > 0 {
			t.Logf("corpora of %s", folder)
			return all
		}
		if _, err := os.Stat(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	t.Fatalf("no corpus in %v", folders)
	return nil
}

func readCorpus(t testing.TB, file string) (all []corpusStatement) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	if strings.HasSuffix(file, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		lines = bufio.NewScanner(z)
	}
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var s corpusStatement
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return all
}

// What a text looks like to somebody who knows no SQL: its first word behind
// comments, and whether it holds a write at all. These are not the rules of any
// engine, and see nothing of what the walkers see.
var (
	leadingComments = regexp.MustCompile(`(?s)^(\s|--[^\n]*\n|/\*.*?\*/|;)+`)
	looksLikeWrite  = regexp.MustCompile(`(?is)^(INSERT\s+(OR\s+\w+\s+)?INTO|REPLACE\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE)\b`)
	writesInWith    = regexp.MustCompile(`(?is)^WITH\b.*\(\s*(INSERT\s+INTO|UPDATE\s+[\w."]+\s+SET|DELETE\s+FROM|MERGE\s+INTO)\b|^WITH\b.*\)\s*(INSERT\s+INTO|UPDATE\s+[\w."]+\s+SET|DELETE\s+FROM|MERGE\s+INTO)\b`)
)

// notMySQL is what an ORM's tests make of what MySQL cannot do.
var notMySQL = regexp.MustCompile(`(?is)\bON\s+CONFLICT\b`)

// ormCorpora hold what programs send: there, every single write that is valid
// must be guarded.
var ormCorpora = []string{"bun_mysql", "bun_postgres", "bun_sqlite", "jet", "sqlc_mysql", "sqlc_postgres", "sqlc_sqlite", "trace_django", "programs"}

func TestCorporaOfRealStatements(t *testing.T) {
	all := corpora(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			texts, writes, guarded := 0, 0, 0
			refused := make(map[string]int)
			for _, s := range all[name] {
				var engine sqlgen.Engine
				switch s.Dialect {
				case "postgres":
					engine = sqlgen.PostgreSQL
				case "sqlite":
					engine = sqlgen.SQLite
				case "mysql":
					engine = sqlgen.MySQL
				default:
					continue
				}
				texts++
				p := sqlgen.Analyze(engine, s.SQL)
				bare := leadingComments.ReplaceAllString(s.SQL, "")
				write := looksLikeWrite.MatchString(bare) || engine == sqlgen.PostgreSQL && writesInWith.MatchString(bare)
				if write && p.Strategy == sqlgen.Pass && !strings.Contains(s.SQL, "/*") && !strings.Contains(s.SQL, "--") && !strings.Contains(s.SQL, "'") {
					t.Errorf("passes as %v:\n%s", p.Kind, s.SQL)
				}
				if !p.Writes() {
					continue
				}
				writes++
				switch p.Strategy {
				case sqlgen.Splice:
					guarded++
					text, err := p.Guarded(1)
					if err != nil {
						t.Errorf("%v\n%s", err, s.SQL)
						continue
					}
					if again := sqlgen.Analyze(engine, text); again.Kind != p.Kind || again.Strategy != sqlgen.Splice && !p.Raises() {
						t.Errorf("is %v, and spliced it is %v: %v %s\n%s", p.Kind, again.Kind, again.Strategy, again.Reason, text)
					}
				case sqlgen.Refuse:
					refused[p.Kind.String()+" "+p.Verb+": "+p.Reason]++
					single := (looksLikeWrite.MatchString(bare) || writesInWith.MatchString(bare)) &&
						!strings.HasPrefix(strings.ToUpper(bare), "TRUNCATE") && p.Kind != sqlgen.KindSeveral
					valid := s.Valid == nil || *s.Valid
					if engine == sqlgen.MySQL && (notMySQL.MatchString(bare) || !write) {
						valid = false
					}
					if single && valid && slices.Contains(ormCorpora, name) {
						t.Errorf("is refused: %s\n%s", p.Reason, s.SQL)
					}
				}
			}
			t.Logf("%d texts, %d write, %d spliced", texts, writes, guarded)
			for _, reason := range slices.SortedFunc(maps.Keys(refused), func(a, b string) int { return refused[b] - refused[a] }) {
				t.Logf("%6d refused: %s", refused[reason], reason)
			}
		})
	}
}
