// Package layering holds the tree to its architecture: which package may import
// which, what a program that imports a package links, and what every file must be
// free of. The rules are data; a change of the architecture is a change here.
package layering

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sqlfence/sqlfence"

// mayImport tells for each package of the module which others of the module it
// may import; its tests may import more. A name that ends with /* stands for each
// sub-package, and sub-packages know nothing of each other. One direction only:
// what is not listed is refused, so a new folder needs a row.
var mayImport = map[string][]string{
	"sqlgen":              {},
	"guard":               {"sqlgen", "internal/bound", "internal/door", "internal/withdrawal"},
	"guard/guardhttp":     {"guard"},
	"guard/guardtest":     {"guard", "sqlgen"}, // for tests of programs
	"driver":              {"guard", "sqlgen", "driver/internal/native", "internal/door"},
	"driver/internal/*":   {"guard", "sqlgen"},
	"driver/*":            {"driver", "driver/internal/native", "guard", "sqlgen"},
	"lease":               {"guard", "sqlgen"},
	"lease/internal/*":    {"lease", "guard"},
	"lease/postgres/*":    {"lease/postgres"},
	"lease/*":             {"lease", "lease/internal/answer", "lease/internal/connection", "lease/internal/grant", "lease/internal/listen", "internal/bound", "internal/door", "internal/withdrawal", "guard", "sqlgen"},
	"internal/bound":      {},                      // between guard and lease
	"internal/door":       {},                      // between driver, guard and lease on SQLite
	"internal/withdrawal": {"internal/bound"},      // between guard and lease
	"internal/leak":       {"internal/withdrawal"}, // for tests
	"internal/*":          {},                      // for tests; only tests import it
	"internal/fencetest":  {"guard", "sqlgen"},
	"internal/holdtest":   {"guard", "internal/testserver", "lease"},
	"internal/linear":     {"lease"},
	"internal/cmd/*":      {"internal/testserver"},
	"examples/*":          public,
	"bench":               append([]string{"internal/testserver", "internal/rate"}, public...), // it measures on throwaway servers
}

// public is what a user's program may import.
var public = []string{"driver", "driver/mysql", "driver/postgres", "driver/sqlite", "guard", "guard/guardhttp", "lease", "lease/mysql", "lease/postgres", "lease/postgres/pgxlisten", "lease/redis", "lease/sqlite", "sqlgen"}

// programs tells what a program may link that imports these packages and nothing
// else of ours: modules by prefix, beside the standard library. Dependencies that
// are heavy or optional never enter a program that does not ask for them.
var programs = []struct {
	name    string
	imports []string
	links   []string
}{
	{"SQL text, the fence's meaning and leases", []string{"sqlgen", "guard", "lease"}, nil},
	{"tokens over HTTP", []string{"guard/guardhttp"}, nil},
	{"any driver", []string{"driver", "guard", "lease"}, []string{"github.com/ngrok/sqlmw"}},
	{
		"PostgreSQL", []string{"driver/postgres", "guard", "lease", "lease/postgres"},
		[]string{"github.com/ngrok/sqlmw", "github.com/jackc/", "golang.org/x/sync", "golang.org/x/text"},
	},
	{
		"SQLite", []string{"driver/sqlite", "guard", "lease", "lease/sqlite"},
		[]string{
			"github.com/ngrok/sqlmw", "modernc.org/",
			"github.com/dustin/go-humanize", "github.com/google/uuid", "github.com/mattn/go-isatty",
			"github.com/ncruces/go-strftime", "github.com/remyoudompheng/bigfft", "golang.org/x/sys",
		},
	},
	{
		"MySQL and MariaDB", []string{"driver/mysql", "guard"},
		[]string{"github.com/ngrok/sqlmw", "github.com/go-sql-driver/mysql", "filippo.io/edwards25519"},
	},
	{"test helpers", []string{"guard/guardtest"}, []string{"github.com/DATA-DOG/go-sqlmock"}},
	// A store brings no driver: it takes whatever *sql.DB it is given.
	{"leases in PostgreSQL", []string{"lease/postgres"}, nil},
	{"notifications of PostgreSQL", []string{"lease/postgres/pgxlisten"}, []string{"github.com/jackc/", "golang.org/x/sync", "golang.org/x/text"}},
	{"leases in SQLite", []string{"lease/sqlite"}, nil},
	{"leases in MariaDB and MySQL", []string{"lease/mysql"}, nil},
	{"leases in Redis", []string{"lease/redis"}, []string{"github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic", "golang.org/x/sys/cpu"}},
	{"the conformance suite of stores", []string{"lease/leasetest"}, nil},
}

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath string
	Dir        string
	Name       string
	Standard   bool
	Imports    []string
	Error      *struct{ Err string }
}

// list runs go list in the root of the repository.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Dir,Name,Standard,Imports,Error"}, args...)...)
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	var all []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		all = append(all, p)
	}
	return all
}

// ours returns the path within the module.
func ours(importPath string) (string, bool) {
	return strings.CutPrefix(importPath, module+"/")
}

// rule returns the row of mayImport that holds for a package of ours: its own, or
// that of its parent's sub-packages.
func rule(name string) ([]string, bool) {
	if may, ok := mayImport[name]; ok {
		return may, true
	}
	may, ok := mayImport[path.Dir(name)+"/*"]
	return may, ok
}

func TestPackagesImportInOneDirection(t *testing.T) {
	seen := 0
	for _, p := range list(t, "./...", "./bench/...", "./examples/...") {
		name, ok := ours(p.ImportPath)
		if !ok {
			continue // the module's root holds no package
		}
		seen++
		may, ok := rule(name)
		if !ok {
			t.Errorf("%s has no row in mayImport: which packages may it know?", name)
			continue
		}
		for _, imported := range p.Imports {
			if other, ok := ours(imported); ok && !slices.Contains(may, other) {
				t.Errorf("%s imports %s; it may import %v", name, other, may)
			}
		}
	}
	if seen == 0 {
		t.Fatal("go list found no package of ours")
	}
}

func TestProgramsLinkOnlyWhatTheyImport(t *testing.T) {
	for _, program := range programs {
		t.Run(program.name, func(t *testing.T) {
			args := []string{"-deps"}
			for _, name := range program.imports {
				args = append(args, module+"/"+name)
			}
			linked := map[string]bool{}
			for _, p := range list(t, args...) {
				if _, own := ours(p.ImportPath); p.Standard || own {
					continue
				}
				if !slices.ContainsFunc(program.links, func(prefix string) bool { return strings.HasPrefix(p.ImportPath, prefix) }) {
					linked[p.ImportPath] = true
				}
			}
			if len(linked) > 0 {
				t.Errorf("a program that imports %v links %v; allowed beside the standard library: %v",
					program.imports, slices.Sorted(maps.Keys(linked)), program.links)
			}
		})
	}
}
