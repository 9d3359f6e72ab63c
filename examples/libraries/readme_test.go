package libraries

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write what the READMEs show of the programs instead of comparing it")

// mostLines is how many lines of a program may change for the fence, per engine.
const mostLines = 3

// engines are the files of before and after, and those that are columns of the table.
var engines = []struct {
	file, name string
	column     bool
}{
	{"postgres.go", "PostgreSQL", true},
	{"pgdriver.go", "PostgreSQL through bun's own driver", false},
	{"sqlite.go", "SQLite", true},
	{"mysql.go", "MariaDB", true},
}

// TestREADMEsShowTheChange compares each program before and after it was fenced, and
// holds the READMEs to what it finds.
func TestREADMEsShowTheChange(t *testing.T) {
	programs, err := filepath.Glob("*/before")
	if err != nil {
		t.Fatal(err)
	}
	if len(programs) == 0 {
		t.Fatal("no program was found")
	}
	var table strings.Builder
	table.WriteString("| library | program |")
	rule := "|---|---|"
	for _, e := range engines {
		if e.column {
			table.WriteString(" " + e.name + " |")
			rule += "---|"
		}
	}
	table.WriteString("\n" + rule + "\n")
	for _, before := range programs {
		dir := filepath.Dir(before)
		if len(filesOf(t, before)) != len(filesOf(t, filepath.Join(dir, "after"))) {
			t.Errorf("%s: not the same files before and after", dir)
		}
		shown := &strings.Builder{}
		compared := 0
		library, does, ok := strings.Cut(strings.TrimPrefix(firstLine(t, filepath.Join(dir, "README.md")), "# "), ": ")
		if !ok {
			t.Errorf("%s/README.md does not begin with \"# library: what the program is\"", dir)
		}
		fmt.Fprintf(&table, "| [%s](libraries/%s) | %s |", library, dir, does)
		for _, e := range engines {
			file := filepath.Join(dir, "after", e.file)
			if _, err := os.Stat(file); err != nil {
				if e.column {
					table.WriteString(" |")
				}
				continue
			}
			compared++
			text, changed := compare(lines(t, filepath.Join(before, e.file)), lines(t, file))
			if changed > mostLines || changed == 0 {
				t.Errorf("%s: %d lines changed, at most %d and at least one:\n%s", file, changed, mostLines, text)
			}
			if e.column {
				fmt.Fprintf(&table, " %d |", changed)
			}
			fmt.Fprintf(shown, "%s, %d lines:\n\n```diff\n%s```\n\n", e.name, changed, text)
		}
		table.WriteString("\n")
		if files := len(filesOf(t, before)); compared != files {
			t.Errorf("%s: %d files of %d are known to this test", before, compared, files)
		}
		section(t, filepath.Join(dir, "README.md"), "diff", shown.String())
	}
	section(t, filepath.Join("..", "README.md"), "changed lines", table.String()+"\n")
}

// section compares what stands between two markers of a file, or writes it.
func section(t *testing.T, file, name, want string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	head, rest, ok1 := strings.Cut(string(content), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Errorf("%s has no section between %q and %q", file, strings.TrimSpace(begin), end)
		return
	}
	if want = "\n" + want; got == want {
		return
	}
	if !*write {
		t.Errorf("%s: the section %q is out of date (go test -write brings it up to date):\n%s\nwant\n%s", file, name, got, want)
		return
	}
	if err := os.WriteFile(file, []byte(head+begin+want+end+tail), 0o644); err != nil {
		t.Error(err)
	}
}

// compare returns the lines that differ, with - and +, and how many are changed:
// added, removed, or both at one place. Blank lines are not counted.
func compare(before, after []string) (text string, changed int) {
	common := make([][]int, len(before)+1) // length of the longest common sequence of the rests
	for i := range common {
		common[i] = make([]int, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if before[i] == after[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out strings.Builder
	removed, added := 0, 0
	settle := func() {
		changed += max(removed, added)
		removed, added = 0, 0
	}
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			settle()
			i, j = i+1, j+1
		case i < len(before) && (j == len(after) || common[i+1][j] >= common[i][j+1]):
			out.WriteString("-" + before[i] + "\n")
			removed++
			i++
		default:
			out.WriteString("+" + after[j] + "\n")
			added++
			j++
		}
	}
	settle()
	return out.String(), changed
}

// TestCompareCountsLines is the control of the count.
func TestCompareCountsLines(t *testing.T) {
	for _, c := range []struct {
		before, after string
		changed       int
	}{
		{"a b c", "a b c", 0},
		{"a b c", "a x c", 1},
		{"a b c", "a c", 1},
		{"a b c", "a x y c", 2},
		{"a b c", "x a b y", 2},
	} {
		if text, changed := compare(strings.Fields(c.before), strings.Fields(c.after)); changed != c.changed {
			t.Errorf("from %q to %q: %d lines, want %d:\n%s", c.before, c.after, changed, c.changed, text)
		}
	}
}

func filesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// lines returns the lines of a file that are not blank.
func lines(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(content), "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
}

func firstLine(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	return line
}
