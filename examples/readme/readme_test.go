package main

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
)

// region returns what stands between two markers, without surrounding blank lines.
func region(t *testing.T, file, begin, end string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(content), begin)
	if !found {
		t.Fatalf("%s has no %q", file, begin)
	}
	text, _, found := strings.Cut(after, end)
	if !found {
		t.Fatalf("%s has no %q after %q", file, end, begin)
	}
	return strings.Trim(text, "\n")
}

func TestTheREADMEShowsThisProgram(t *testing.T) {
	source := region(t, "main.go", "\t// README:begin\n", "\t// README:end")
	source = strings.TrimPrefix(strings.ReplaceAll(source, "\n\t", "\n"), "\t")
	shown := region(t, filepath.Join("..", "..", "README.md"), "<!-- example:readme -->\n```go\n", "```")
	if shown != source {
		t.Errorf("the go block after <!-- example:readme --> in README.md is not what main.go has between its markers; in README.md:\n%s\nin main.go:\n%s", shown, source)
	}
}

// openJobs connects through the bare driver and creates the table that the
// README speaks of.
func openJobs(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, text := range []string{
		`CREATE TABLE jobs (id int PRIMARY KEY, status text NOT NULL)`,
		`INSERT INTO jobs VALUES (41, 'new'), (42, 'new')`,
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func status(t *testing.T, db *sql.DB, id int) string {
	t.Helper()
	var s string
	if err := db.QueryRow(`SELECT status FROM jobs WHERE id = $1`, id).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheREADMEProgramRunsAsItStands(t *testing.T) {
	program := filepath.Join(t.TempDir(), "readme")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := openJobs(t, dsn)
		for range 2 { // again: the schema is there, and the lease was released
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), "DATABASE_URL="+dsn)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := status(t, db, 42); got != "done" {
				t.Fatalf("job 42 is %q, want %q", got, "done")
			}
			if got := status(t, db, 41); got != "new" {
				t.Fatalf("job 41 is %q, want %q", got, "new")
			}
			if _, err := db.Exec(`UPDATE jobs SET status = 'new' WHERE id = 42`); err != nil {
				t.Fatal(err)
			}
		}
	})
}
