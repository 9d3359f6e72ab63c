package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
)

// The servers of this run serve as those of the runs that are started here.
func nameServers(t *testing.T) {
	t.Helper()
	for env, servers := range map[string][]testserver.Server{
		testserver.EnvPostgreSQL: testserver.PostgreSQL(t),
		testserver.EnvMySQL:      testserver.MySQL(t),
		testserver.EnvRedis:      testserver.Redis(t),
	} {
		var list []string
		for _, server := range servers {
			list = append(list, server.DSN)
		}
		t.Setenv(env, strings.Join(list, ","))
	}
}

func TestStatusOfARun(t *testing.T) {
	nameServers(t)
	// What a test writes that uses a server.
	version := testserver.PostgreSQL(t)[0].Version
	use := `printf 'PostgreSQL\t%s\tpkg\tTestA\nPostgreSQL\t%s\tpkg\tTestB\n' ` + version + " " + version + ` >>"$` + testserver.EnvReport + `"; `
	for _, c := range []struct {
		name    string
		script  string
		all     bool
		want    int
		printed []string
	}{
		{
			"the command succeeds", use + "exit 0", false, 0,
			[]string{"testing with PostgreSQL " + version + " (named by ", "PostgreSQL " + version, "used by 2 tests in 1 packages", "NOT USED by any test"},
		},
		{"the command fails", use + "exit 7", false, 7, []string{"the run FAILED"}},
		{"an engine that must be used is not", use + "exit 0", true, 1, []string{"NOT USED by any test", "the run FAILED"}},
		{"the command is killed", "kill -KILL $$", false, 1, nil},
		{"the command sees the servers", `test -n "$` + testserver.EnvPostgreSQL + `"`, false, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			status, err := run([]string{"/bin/sh", "-c", c.script}, c.all, out)
			if err != nil {
				t.Fatal(err)
			}
			if status != c.want {
				t.Errorf("status is %d, expected %d", status, c.want)
			}
			printed, err := os.ReadFile(out.Name())
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.printed {
				if !strings.Contains(string(printed), want) {
					t.Errorf("output lacks %q:\n%s", want, printed)
				}
			}
		})
	}
}

func TestACommandThatIsNotThereIsAnError(t *testing.T) {
	nameServers(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if status, err := run([]string{"/no/such/command"}, false, out); err == nil || status == 0 {
		t.Errorf("status %d and error %v, expected both to tell", status, err)
	}
}
