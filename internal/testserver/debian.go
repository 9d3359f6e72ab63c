package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// startDebian installs Debian's PostgreSQL, whichever major that is.
func startDebian(ctx context.Context, w postgreSQLWanted) (*Instance, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can install one")
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return nil, errors.New("there is no apt-get")
	}
	for _, step := range [][]string{
		{apt, "update"},
		{apt, "install", "--yes", "--no-install-recommends", "postgresql-common"},
		// The server package would make and start a cluster of its own.
		{"pg_conftool", "/etc/postgresql-common/createcluster.conf", "set", "create_main_cluster", "false"},
		{apt, "install", "--yes", "--no-install-recommends", "postgresql"},
	} {
		// Made only now: the program of a step may come with the step before.
		cmd := exec.CommandContext(ctx, step[0], step[1:]...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	instance, err := startInstalled(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("the version that Debian has does not fit: %w", err)
	}
	instance.Origin = "Debian package, " + instance.Origin
	return instance, nil
}
