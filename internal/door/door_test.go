//go:build unix && !solaris && !aix

package door

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const envShut = "SQLFENCE_TEST_DOOR"

func TestMain(m *testing.M) {
	if file := os.Getenv(envShut); file != "" {
		_, ok, err := Shut(file)
		fmt.Println(ok, err)
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

func mustShut(t *testing.T, file string) (open func()) {
	t.Helper()
	open, ok, err := Shut(file)
	if err != nil || !ok {
		t.Fatalf("the door is not shut: %v", err)
	}
	return open
}

func TestWhoPassesWaitsWhileItIsShut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	Pass(t.Context(), file)
	open := mustShut(t, file)
	if _, ok, err := Shut(file); ok || err != nil {
		t.Errorf("shut twice: %v, %v", ok, err)
	}
	passed := make(chan struct{})
	var opened atomic.Bool
	go func() {
		Pass(context.WithoutCancel(t.Context()), file)
		if !opened.Load() {
			t.Error("passed while it was shut")
		}
		close(passed)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Pass(ctx, file) // who gives up does not wait
	opened.Store(true)
	open()
	<-passed
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if isOpen(file+suffix) != true {
		t.Error("it is not open")
	}
}

func TestNobodyWaitsForLongerThanHisPatience(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	defer mustShut(t, file)()
	start := time.Now()
	Pass(t.Context(), file)
	if took := time.Since(start); took < Patience || took > 3*Patience {
		t.Errorf("passed after %v, expected %v", took, Patience)
	}
}

func TestADoorOpensWithTheEndOfItsProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), envShut+"="+file)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "true <nil>\n" {
		t.Errorf("the child: %q, %v", line, err)
	}
	if isOpen(file + suffix) {
		t.Error("another process does not see that it is shut")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if !isOpen(file + suffix) {
		t.Error("it is shut after the end of who has shut it")
	}
	mustShut(t, file)()
}

// However it is shut and opened, never two at a time have it.
func TestOnlyOneHasItShut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	var inside, times atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for times.Load() < 500 {
				open, ok, err := Shut(file)
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two have it shut")
				}
				times.Add(1)
				inside.Add(-1)
				open()
			}
		})
	}
	all.Wait()
}

func TestWhereNoFileCanBeMade(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no folder", "db")
	if _, ok, err := Shut(missing); ok || err == nil {
		t.Errorf("shut where no file can be made: %v, %v", ok, err)
	}
	Pass(t.Context(), missing)
	open, ok, err := Shut("")
	if !ok || err != nil {
		t.Errorf("without a file: %v, %v", ok, err)
	}
	open()
}

// What somebody else has put where the lock file would be stays as it is.
func TestWhatIsNotOursIsNeitherFollowedNorRemoved(t *testing.T) {
	const content = "dear to somebody"
	elsewhere := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(elsewhere, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	for what, put := range map[string]func(name string) error{
		"a link":             func(name string) error { return os.Symlink(elsewhere, name) },
		"a link to nothing":  func(name string) error { return os.Symlink(elsewhere+"-new", name) },
		"a second name":      func(name string) error { return os.Link(elsewhere, name) },
		"a folder":           func(name string) error { return os.Mkdir(name, 0o755) },
		"a file":             func(name string) error { return os.WriteFile(name, []byte(content), 0o644) },
		"a read-only file":   func(name string) error { return os.WriteFile(name, []byte(content), 0o444) },
		"more than the mark": func(name string) error { return os.WriteFile(name, []byte(mark+"\n"), 0o644) },
		"a pipe":             func(name string) error { return syscall.Mkfifo(name, 0o644) },
	} {
		t.Run(what, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "db")
			name := file + suffix
			if err := put(name); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok, err := Shut(file); ok || err == nil {
				t.Errorf("shut: %v, %v; want an error", ok, err)
			}
			if !isOpen(name) {
				t.Error("it counts as a door that is shut")
			}
			after, err := os.Lstat(name)
			if err != nil || !os.SameFile(before, after) || after.Size() != before.Size() || after.Mode() != before.Mode() {
				t.Errorf("it is %v now (%v), and was %v", after, err, before)
			}
		})
	}
	if got, err := os.ReadFile(elsewhere); err != nil || string(got) != content {
		t.Errorf("the file behind the link holds %q, %v", got, err)
	}
	if _, err := os.Lstat(elsewhere + "-new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made behind the link: %v", err)
	}
}

// An empty file is a lock as good as another, and somebody else's.
func TestAnEmptyFileOfSomebodyElseStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(file+suffix, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	mustShut(t, file)()
	if _, err := os.Lstat(file + suffix); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}
