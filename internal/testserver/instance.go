package testserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// startTimeout bounds everything from looking for a server to its first answer.
// It leaves room for downloads on a slow line.
const startTimeout = 8 * time.Minute

// Instance is a throwaway server. It lives until Stop, or until this process ends.
type Instance struct {
	Server
	Origin string // where its programs came from, for people

	lifeline *os.File // closing it stops the server; so does the end of this process
	alive    *os.File // reports end of file once the supervisor is gone
	log      *os.File // what the server printed; readable after the folder is gone
	cmd      *exec.Cmd
	stop     sync.Once
}

// supervise runs a server and stops it when the lifeline, its standard input,
// ends. The kernel closes the lifeline of a killed process, so no server outlives
// its tests. It is a shell and not a goroutine because the process that must be
// survived is this one.
//
// A shell gives its background jobs /dev/null as standard input, hence fd 4. What
// is said on the lifeline before its end is how to stop; nothing if we were killed.
// The folder stays if it holds a file "keep".
const supervise = `
exec 4<&0 </dev/null
"$@" 3>&- 4<&- &
pid=$!
( how=$(cat <&4); eval "$SUPERVISE_STOP" ) 3>&- &
watcher=$!
exec 4<&-
wait "$pid"
kill "$watcher" 2>/dev/null
[ -e "$SUPERVISE_FOLDER/keep" ] || rm -rf "$SUPERVISE_FOLDER"
`

// program is a server that can be started.
type program struct {
	args   []string
	env    []string
	stop   string // shell text that stops it; $pid is the server, $how what Instance.end was told
	folder string // removed when it has stopped
	user   *user  // nil: as we are
}

// start runs the program under the supervisor.
func (p program) start() (*Instance, error) {
	log, err := os.CreateTemp("", "sqlfence-server-*.log")
	if err != nil {
		return nil, err
	}
	// Only the open file is needed; nothing is left behind if we are killed.
	if err := os.Remove(log.Name()); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	stdin, lifeline, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	alive, held, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, log.Close(), stdin.Close(), lifeline.Close())
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", supervise, "supervise"}, p.args...)...)
	cmd.Dir = "/"
	cmd.Env = append(append(os.Environ(), p.env...), "SUPERVISE_STOP="+p.stop, "SUPERVISE_FOLDER="+p.folder)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, log, log
	cmd.ExtraFiles = []*os.File{held} // fd 3
	detach(cmd, p.user)
	err = cmd.Start()
	err = errors.Join(err, stdin.Close(), held.Close())
	if err != nil {
		return nil, errors.Join(err, log.Close(), lifeline.Close(), alive.Close())
	}
	return &Instance{lifeline: lifeline, alive: alive, log: log, cmd: cmd}, nil
}

// waitReady calls ask until it succeeds. It gives up when the server has ended or
// the context does.
func (i *Instance) waitReady(ctx context.Context, ask func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		// A deadline that has passed already would fail before looking.
		if i.ended(time.Now().Add(time.Millisecond)) {
			return fmt.Errorf("the server ended at once; it printed:\n%s", i.printed())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w; it printed:\n%s", err, i.printed())
		}
	}
}

// ended tells whether the supervisor is gone, waiting for that until deadline.
func (i *Instance) ended(deadline time.Time) bool {
	if err := i.alive.SetReadDeadline(deadline); err != nil {
		return false
	}
	_, err := i.alive.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// printed returns the last 4,000 bytes of the server's output.
func (i *Instance) printed() string {
	info, err := i.log.Stat() // a Seek would move the server's place in the file too
	if err != nil {
		return err.Error()
	}
	tail := make([]byte, min(info.Size(), 4000))
	n, err := i.log.ReadAt(tail, info.Size()-int64(len(tail)))
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return string(tail[:n])
}

// Stop ends the server and removes its data. Calls after the first do nothing.
func (i *Instance) Stop() error { return i.end("") }

// end ends the server in the way that its program understands by how.
func (i *Instance) end(how string) error {
	var err error
	i.stop.Do(func() {
		_, err = i.lifeline.WriteString(how)
		err = errors.Join(err, i.lifeline.Close())
		if !i.ended(time.Now().Add(30 * time.Second)) {
			err = errors.Join(err, fmt.Errorf("server at %s did not stop; it printed:\n%s", i.DSN, i.printed()))
		} else {
			err = errors.Join(err, i.cmd.Wait())
		}
		err = errors.Join(err, i.alive.Close(), i.log.Close())
	})
	return err
}

// kept holds the instances that live as long as the process. A file that nobody
// refers to is closed by the garbage collector, and the server would end with it.
var kept []*Instance

func keep(i *Instance) { kept = append(kept, i) }

// freePort returns a loopback port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// reachable tells whether every user can enter the folder.
func reachable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}
