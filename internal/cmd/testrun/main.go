// Command testrun runs a command, normally `go test`, with a throwaway server of
// each engine and version that sqlfence is tested against, and ends with the list
// of those that tests have used, if any have.
//
//	go run ./internal/cmd/testrun -all -- go test ./...
//
// It exits with the command's status; with 1 if a server cannot be had, or if -all
// is given and a server was not used by any test.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sqlfence/sqlfence/internal/testserver"
)

func main() {
	all := flag.Bool("all", false, "fail if a server was not used by any test")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: testrun [-all] [--] command [argument...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	status, err := run(flag.Args(), *all, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// run returns the status to exit with. It prints to out, where the command prints too.
func run(command []string, all bool, out *os.File) (status int, err error) {
	// A keyboard interrupt reaches the command too; we outlive it to clean up.
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	began := time.Now()
	servers, err := testserver.StartRun(interrupted)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	for _, s := range servers.Servers {
		fmt.Fprintln(out, "testing with", s)
	}
	fmt.Fprintf(out, "servers ready after %.1f s\n", time.Since(began).Seconds())

	folder, err := os.MkdirTemp("", "sqlfence-report-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	report := filepath.Join(folder, "report")

	cmd := exec.CommandContext(interrupted, command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), servers.Env()...), testserver.EnvReport+"="+report)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return 1, err
		}
		status = max(exit.ExitCode(), 1) // -1 if it was killed
	}

	uses, err := testserver.ReadReport(report)
	if err != nil {
		return status, err
	}
	if len(uses) == 0 && !all {
		return status, nil // it was no test that was run
	}
	fmt.Fprintln(out, "\nEngines and versions tested:")
	for _, u := range uses {
		fmt.Fprintf(out, "  %-20s used by %d tests in %d packages\n", u.Engine+" "+u.Version, u.Tests, u.Packages)
	}
	for _, s := range servers.Unused(uses) {
		fmt.Fprintf(out, "  %-20s NOT USED by any test\n", s.Engine+" "+s.Version)
		if all {
			status = max(status, 1)
		}
	}
	if status != 0 {
		fmt.Fprintln(out, "  and the run FAILED, see above")
	}
	return status, nil
}
