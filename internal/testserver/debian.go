package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// startDebian installs Debian's PostgreSQL, whichever major that is.
func (w postgreSQLWanted) startDebian(ctx context.Context) (*Instance, error) {
	if err := installDebian(ctx,
		[]string{"apt-get", "install", "--yes", "--no-install-recommends", "postgresql-common"},
		// The server package would make and start a cluster of its own.
		[]string{"pg_conftool", "/etc/postgresql-common/createcluster.conf", "set", "create_main_cluster", "false"},
		[]string{"apt-get", "install", "--yes", "--no-install-recommends", "postgresql"},
	); err != nil {
		return nil, err
	}
	instance, err := w.startInstalled(ctx)
	return debianInstance(instance, err)
}

// debianInstance names the source of a server whose programs were installed just now.
func debianInstance(instance *Instance, err error) (*Instance, error) {
	if err != nil {
		return nil, fmt.Errorf("the version that Debian has does not fit: %w", err)
	}
	instance.Origin = "Debian package, " + instance.Origin
	return instance, nil
}

// noServices is what makes the packages' scripts start nothing: they ask this
// program, if it is there, whether they may (invoke-rc.d(8)).
const noServices = "/usr/sbin/policy-rc.d"

// installing keeps two engines of one process from disturbing each other: the
// package manager takes one at a time.
var installing sync.Mutex

// installDebian refreshes the package lists and takes the steps, starting none of
// the services that the packages bring.
func installDebian(ctx context.Context, steps ...[]string) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can install one")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("there is no apt-get")
	}
	installing.Lock()
	defer installing.Unlock()
	if _, err := os.Lstat(noServices); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(noServices, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
			return err
		}
		defer os.Remove(noServices)
	}
	for _, step := range append([][]string{{"apt-get", "update"}}, steps...) {
		// Made only now: the program of a step may come with the step before.
		cmd := exec.CommandContext(ctx, step[0], step[1:]...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}
