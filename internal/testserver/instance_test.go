package testserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sleeper is a server that does nothing. It writes its process id to pid, and its
// folder holds a file, like a server's data.
func sleeper(folder, pid string) program {
	return program{
		args:   []string{"/bin/sh", "-c", `echo $$ >"$0.new" && mv "$0.new" "$0" && exec sleep 600`, pid},
		stop:   `kill "$pid"`, // a shell's background job ignores QUIT unless it asks for it, as PostgreSQL does
		folder: folder,
	}
}

// playVictim starts a server and waits to be killed.
func playVictim(folder string) {
	instance, err := sleeper(folder, folder+".pid").start()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	keep(instance)
	fmt.Println("started")
	select {}
}

// running tells whether a process lives; one that nobody has waited for counts as
// gone, as its parent may be an init process that is slow to look.
func running(t *testing.T, pid int) bool {
	t.Helper()
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

// readPID waits for the file and returns the process id in it.
func readPID(t *testing.T, file string) int {
	t.Helper()
	var text []byte
	eventually(t, "process id in "+file, func() bool {
		var err error
		text, err = os.ReadFile(file)
		return err == nil
	})
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func dataFolder(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(filepath.Join(folder, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	return folder
}

func gone(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, os.ErrNotExist)
}

func TestServerEndsWhenItsProcessIsKilled(t *testing.T) {
	folder := dataFolder(t)
	victim := exec.Command(os.Args[0], folder)
	victim.Env = append(os.Environ(), envPlay+"=victim")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Errorf("the process says %q (%v), expected that it has started a server", line, err)
	}
	pid := readPID(t, folder+".pid")
	if !running(t, pid) {
		t.Error("the server does not run while its process lives")
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := victim.Wait(); err == nil {
		t.Error("the process ended by itself, expected that it was killed")
	}
	eventually(t, "end of the server", func() bool { return !running(t, pid) })
	eventually(t, "removal of its folder", func() bool { return gone(folder) })
}

func TestStopEndsServerAndRemovesItsFolder(t *testing.T) {
	folder := dataFolder(t)
	instance, err := sleeper(folder, folder+".pid").start()
	if err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, folder+".pid")
	for range 2 { // the second call does nothing
		if err := instance.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if running(t, pid) {
		t.Error("the server runs after Stop")
	}
	if !gone(folder) {
		t.Error("the folder is there after Stop")
	}
}

func TestServerThatEndsAtOnceIsReportedWithWhatItPrinted(t *testing.T) {
	folder := dataFolder(t)
	instance, err := program{
		args:   []string{"/bin/sh", "-c", "echo out of luck; exit 3"},
		stop:   `kill "$pid"`,
		folder: folder,
	}.start()
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	err = instance.waitReady(t.Context(), func(ctx context.Context) error {
		instance.ended(time.Now().Add(10 * time.Second))
		return refused
	})
	if err == nil || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("error is %v, expected what the server printed", err)
	}
	if err := instance.Stop(); err != nil {
		t.Error(err)
	}
}

func TestReachableLooksAtEveryFolderAbove(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "sqlfence-reachable-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	inner := filepath.Join(base, "a", "b")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if reachable(inner) {
		t.Error("a folder below a closed one counts as reachable")
	}
	if err := os.Chmod(base, 0o711); err != nil {
		t.Fatal(err)
	}
	if !reachable(inner) {
		t.Error("a folder that everybody can enter counts as unreachable")
	}
}
