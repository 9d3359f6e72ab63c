package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// The file is closed and opened again.
func TestConformanceAcrossRestarts(t *testing.T) {
	dsn := "file:" + testserver.SQLiteFile(t) + walAndTimeout
	reopen := func(t testing.TB) *sql.DB {
		db, err := sql.Open("sqlite", dsn)
		if err == nil {
			err = guard.Migrate(t.Context(), db, sqlgen.SQLite)
		}
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := reopen(t)
	defer func() { db.Close() }()
	leasetest.RunRestart(t, leasetest.Config{
		New:   func(testing.TB) lease.Store { return leasesqlite.New(db) },
		Lapse: func(t testing.TB, _ lease.Store, resource string) { expire(t, db, resource) },
		Restart: func(t testing.TB, _ lease.Store) lease.Store {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			db = reopen(t)
			return leasesqlite.New(db)
		},
	})
}

// killedEnv names the file of the process that TestAKillOfTheProcessLosesNoGrant ends.
const killedEnv = "SQLFENCE_TEST_KILLED_FILE"

// kill -9 of a process that acquires without end, at the setting that programs are
// advised to use: what it has told of is there, and no epoch is granted twice.
func TestAKillOfTheProcessLosesNoGrant(t *testing.T) {
	if file := os.Getenv(killedEnv); file != "" {
		acquireWithoutEnd(t, file)
		return
	}
	file := testserver.SQLiteFile(t)
	db, err := sql.Open("sqlite", "file:"+file+walAndTimeout+"&_pragma=synchronous(NORMAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{} // epochs
	for round := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestAKillOfTheProcessLosesNoGrant$")
		cmd.Env = append(os.Environ(), killedEnv+"="+file)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var last guard.Token
		tokens := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			text, ok := strings.CutPrefix(lines.Text(), "token ")
			if !ok {
				continue
			}
			// A line that the kill has cut off was not told.
			text, whole := strings.CutSuffix(text, " .")
			if !whole {
				continue
			}
			if last, err = guard.ParseToken(text); err != nil {
				t.Fatal(err)
			}
			epoch := fmt.Sprint(last.Epoch)
			if told[epoch] {
				t.Errorf("round %d: epoch %s was granted twice", round, epoch)
			}
			told[epoch] = true
			if tokens++; tokens == 20+round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() || ctx.Err() != nil {
			t.Fatalf("round %d: the process ended with %v before it was killed", round, err)
		}
		cancel()
		state, err := leasesqlite.New(db).Inspect(t.Context(), "r")
		if err != nil || state.Epoch < last.Epoch || state.HighWater != state.Epoch || state.Owner != "same" {
			t.Errorf("round %d: %+v (%v) after the kill, but epoch %d was told of", round, state, err, last.Epoch)
		}
		g, err := leasesqlite.New(db).Acquire(t.Context(), request("r", "same"))
		if err != nil {
			t.Fatal(err)
		}
		if g.Token.Epoch <= last.Epoch || told[fmt.Sprint(g.Token.Epoch)] {
			t.Errorf("round %d: epoch %d was granted after epoch %d", round, g.Token.Epoch, last.Epoch)
		}
		told[fmt.Sprint(g.Token.Epoch)] = true
		if err := guard.NewFence(db, sqlgen.SQLite).Check(t.Context(), last); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("round %d: the token of before: %v, want fenced", round, err)
		}
	}
}

// acquireWithoutEnd is the process that is killed.
func acquireWithoutEnd(t *testing.T, file string) {
	db, err := sql.Open("sqlite", "file:"+file+walAndTimeout+"&_pragma=synchronous(NORMAL)")
	if err != nil {
		t.Fatal(err)
	}
	s := leasesqlite.New(db)
	for {
		g, err := s.Acquire(t.Context(), request("r", "same"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("token %s .\n", g.Token)
	}
}
