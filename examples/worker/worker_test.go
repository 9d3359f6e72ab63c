//go:build unix

package main

import (
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
		dir, err := os.MkdirTemp("", "sqlfence-worker-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "worker")
		if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
			panic(fmt.Sprintf("go build: %v\n%s", err, out))
		}
		return m.Run()
	}())
}

// TestAWorkerStoppedPastItsTTLIsRefused is CASES D1.
func TestAWorkerStoppedPastItsTTLIsRefused(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		out, err := exec.Command(program, "-dsn", dsn).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{
			"A  INSERT is refused", "A  UPDATE is refused", "A  DELETE is refused",
			"its context ends", "the rows are as B left them", "SAFE",
		} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the output lacks %q:\n%s", want, out)
			}
		}
	})
}

// TestWithoutTheFenceTheStoryFails is the control: through the bare driver the
// stopped worker's writes land.
func TestWithoutTheFenceTheStoryFails(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		err := run(t.Context(), io.Discard, parentConfig{exe: program, driver: "pgx", dsn: dsn, ttl: 2 * time.Second})
		const want = "was expected to be refused, but was accepted"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	})
}

func TestAnUnreachableDatabaseIsAClearErrorAndAFailingExitStatus(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "-dsn is missing"},
		{[]string{"-dsn", "postgres://nobody@127.0.0.1:1/none"}, "cannot reach the database"},
	} {
		out, err := exec.Command(program, c.args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: exit status %v, output %q; want a failure that says %q", c.args, err, out, c.want)
		}
	}
}
