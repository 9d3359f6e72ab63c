//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// process is a worker seen from its parent: commands go down a pipe, reports
// come up another.
type process struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	reports chan report // closed when the worker's output ends
}

// start runs this program again as a worker. The worker is killed when ctx
// ends, also while it is stopped.
func start(ctx context.Context, exe string, c workerConfig) (*process, error) {
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &process{name: c.Name, cmd: exec.CommandContext(ctx, exe), reports: make(chan report, 16)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(config))
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.reports)
		for dec := json.NewDecoder(stdout); ; {
			var r report
			if dec.Decode(&r) != nil {
				return
			}
			p.reports <- r
		}
	}()
	return p, nil
}

// send gives the worker commands to execute, in their order. A stopped worker
// finds them when it is continued.
func (p *process) send(commands ...string) error {
	for _, c := range commands {
		if _, err := fmt.Fprintln(p.stdin, c); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// next waits for the worker's next report.
func (p *process) next(ctx context.Context) (report, error) {
	select {
	case r, ok := <-p.reports:
		if !ok {
			return report{}, fmt.Errorf("%s ended unexpectedly", p.name)
		}
		return r, nil
	case <-ctx.Done():
		return report{}, fmt.Errorf("waiting for %s: %w", p.name, context.Cause(ctx))
	}
}

// expect waits for the worker's next report and returns an error unless it is
// of this event.
func (p *process) expect(ctx context.Context, event string) (report, error) {
	r, err := p.next(ctx)
	if err == nil && r.Event != event {
		err = fmt.Errorf("%s was expected to report %q, but reported %+v", p.name, event, r)
	}
	return r, err
}

// stop stops the process, as a hypervisor or `kill -STOP` would, and returns
// when the kernel says that it stands still.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		case !status.Stopped():
			return fmt.Errorf("%s ended instead of stopping: %v", p.name, status)
		}
		return nil
	}
}

// proceed continues a stopped process.
func (p *process) proceed() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// finish ends the worker's input and waits until it has reported its end and
// exited with status 0.
func (p *process) finish(ctx context.Context) (report, error) {
	if err := p.stdin.Close(); err != nil {
		return report{}, err
	}
	r, err := p.expect(ctx, evEnded)
	if err != nil {
		return r, err
	}
	return r, p.cmd.Wait()
}

// kill ends the process if it has not been waited for.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
