package testserver

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// EnvReport names the file to which every test that was handed a server adds a
// line. It is what the list of engines and versions at the end of `make test` is
// made from, so that the list tells what was used and not what was started.
const EnvReport = "SQLFENCE_TEST_REPORT"

var recorded sync.Map // record lines of this process

// record notes that the test uses the server; once per test and server.
func record(t testing.TB, engine, version string) {
	t.Helper()
	file := os.Getenv(EnvReport)
	if file == "" {
		return
	}
	line := strings.Join([]string{engine, version, testBinary(), t.Name()}, "\t") + "\n"
	if _, done := recorded.LoadOrStore(line, true); done {
		return
	}
	// Test binaries run at once: one short write to a file opened for appending
	// does not tear.
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = out.WriteString(line)
		if closed := out.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		t.Errorf("testserver: %s: %v", EnvReport, err)
	}
}

// testBinary returns the path of the package under test.
func testBinary() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Path != "" {
		return strings.TrimSuffix(info.Path, ".test")
	}
	return os.Args[0]
}

// Use tells how one engine in one version was used in a run.
type Use struct {
	Engine   string // "PostgreSQL", "SQLite"
	Version  string
	Packages int // that have a test which used it
	Tests    int // tests and subtests that were handed it
}

// ReadReport adds up the report of a run, sorted by engine and version.
func ReadReport(file string) ([]Use, error) {
	in, err := os.Open(file)
	if os.IsNotExist(err) {
		return nil, nil // no test asked for a server
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	type server struct{ engine, version string }
	packages := map[server]map[string]bool{}
	tests := map[server]map[string]bool{}
	for lines := bufio.NewScanner(in); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return nil, err
			}
			break
		}
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s: line with %d fields, expected 4: %q", file, len(fields), lines.Text())
		}
		s := server{fields[0], fields[1]}
		if packages[s] == nil {
			packages[s], tests[s] = map[string]bool{}, map[string]bool{}
		}
		packages[s][fields[2]] = true
		tests[s][fields[2]+"\t"+fields[3]] = true
	}
	var uses []Use
	for s := range maps.Keys(packages) {
		uses = append(uses, Use{s.engine, s.version, len(packages[s]), len(tests[s])})
	}
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Engine, b.Engine), cmp.Compare(Server{Version: a.Version}.Major(), Server{Version: b.Version}.Major()), cmp.Compare(a.Version, b.Version))
	})
	return uses, nil
}
