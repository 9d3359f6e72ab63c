package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/internal/testserver"
)

// program is the path of the program under test.
var program string

// TestMain compiles the program, so that the tests see its exit status.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sqlfence-quickstart-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "quickstart")
		if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
			panic(fmt.Sprintf("go build: %v\n%s", err, out))
		}
		return m.Run()
	}())
}

// checkStory fails unless the output holds the turning points in their order.
func checkStory(t *testing.T, out string) {
	t.Helper()
	rest := out
	for _, want := range []string{
		"Act 1",
		"A wakes up",
		"accepted, without an error",
		`job 42 in the database: "done by A"`,
		"LOST",
		"Act 2",
		"A wakes up",
		"REFUSED",
		"sqlfence: fenced: resource \"job-42",
		`job 42 in the database: "done by B"`,
		`job 42 in the database: "done by B, and checked"`,
		"SAFE",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("the output lacks %q where it is due:\n%s", want, out)
		}
		rest = after
	}
}

func TestTheProgramTellsTheStoryOnSQLiteInUnderTenSeconds(t *testing.T) {
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v, want less than 10 s", took)
	}
	checkStory(t, string(out))
}

func TestTheProgramLeavesNoFileBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	if err := run(t.Context(), io.Discard, ""); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTheProgramTellsTheStoryOnPostgreSQL(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		out, err := exec.Command(program, "-dsn", dsn).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		checkStory(t, string(out))
	})
}

func TestAnUnreachableDatabaseIsAClearErrorAndAFailingExitStatus(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://nobody@127.0.0.1:1/none": "cannot reach the database",
		"mysql://localhost/none":             "-dsn must be a PostgreSQL URL",
	} {
		out, err := exec.Command(program, "-dsn", dsn).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("-dsn %s: exit status %v, output %q; want a failure that says %q", dsn, err, out, want)
		}
	}
}

// TestTheProgramFailsIfAnActEndsTheOtherWay is the control: each act is played
// through the other act's driver.
func TestTheProgramFailsIfAnActEndsTheOtherWay(t *testing.T) {
	s, err := newStage(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, c := range []struct {
		driver string
		want   ending
		says   string
	}{
		{s.bareDriver, staleWriteRefused, "expected to be refused, but was accepted"},
		{s.fencedDriver, staleWriteWins, "expected to be accepted, but failed"},
	} {
		err := tell(context.Background(), io.Discard, s, c.driver, c.want)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("through %q: error %v, want one that says %q", c.driver, err, c.says)
		}
	}
}
