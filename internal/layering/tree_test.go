package layering

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root returns the folder of go.work.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// eachFile calls fn with every file of ours, by its path from the root: no hidden
// folders but .ci, no build results, and none of others' texts in testdata.
func eachFile(t *testing.T, fn func(name string)) {
	t.Helper()
	base := root(t)
	err := filepath.WalkDir(base, func(file string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file of a test that runs beside this one
		}
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if file != base && name != ".ci" && strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(base, file)
		if err != nil {
			return err
		}
		fn(filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryModuleIsBuiltByContinuousIntegration(t *testing.T) {
	var modules []string
	eachFile(t, func(name string) {
		if filepath.Base(name) == "go.mod" {
			modules = append(modules, filepath.Join(root(t), filepath.Dir(name)))
		}
	})
	slices.Sort(modules)

	// What the targets of the Makefile go through.
	out, err := exec.Command("make", "--no-print-directory", "-C", root(t), "modules").Output()
	if err != nil {
		t.Fatalf("make modules: %v", err)
	}
	built := strings.Fields(string(out))
	slices.Sort(built)
	if !slices.Equal(modules, built) {
		t.Errorf("the Makefile builds %v; the tree has the modules %v", built, modules)
	}

	out, err = exec.Command("go", "-C", root(t), "work", "edit", "-json").Output()
	if err != nil {
		t.Fatalf("go work edit: %v", err)
	}
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal(out, &work); err != nil {
		t.Fatal(err)
	}
	for _, use := range work.Use {
		if dir := filepath.Join(root(t), use.DiskPath); !slices.Contains(built, dir) {
			t.Errorf("go.work uses %s, which the Makefile does not build", use.DiskPath)
		}
	}

	script, err := os.ReadFile(filepath.Join(root(t), ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"make test\n", "make lint\n", "make vet\n", "make test-race\n", "make examples\n", "make bench ", "make bench-leases "} {
		if !strings.Contains(string(script), step) {
			t.Errorf(".ci/run does not run %q", strings.TrimSpace(step))
		}
	}
}

// forbidden tells what no file may contain. The patterns are written so that they
// do not find themselves.
var forbidden = []struct {
	why     string
	pattern *regexp.Regexp
}{
	{"an unfinished place is an issue, not a comment", regexp.MustCompile(`\b(TOD[O]|FIXM[E])\b`)},
	{"a path of one machine", regexp.MustCompile(`(^|[\s"'=(:])/(roo[t]|wor[k])/`)},
	{"a package registry's host is the user's configuration", regexp.MustCompile(`proxy\.golan[g]\.org|registry\.npmj[s]\.org|deb\.debia[n]\.org`)},
	{"a test that skips proves nothing; fail and say what is missing", regexp.MustCompile(`\b[tb]\.Ski[p](f|Now)?\(`)},
}

func TestFilesAreFreeOfWhatMustNotBeSent(t *testing.T) {
	eachFile(t, func(name string) {
		content, err := os.ReadFile(filepath.Join(root(t), name))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for number, line := range strings.Split(string(content), "\n") {
			for _, f := range forbidden {
				if found := f.pattern.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: %s", name, number+1, strings.TrimSpace(found), f.why)
				}
			}
		}
	})
}
