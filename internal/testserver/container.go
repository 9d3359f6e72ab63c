package testserver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// startContainer runs the official image if Docker or Podman answers.
func startContainer(ctx context.Context, w postgreSQLWanted) (*Instance, error) {
	engine, err := containerEngine(ctx)
	if err != nil {
		return nil, err
	}
	image := fmt.Sprintf("postgres:%d", w.newest)
	if out, err := exec.CommandContext(ctx, engine, "pull", image).CombinedOutput(); err != nil {
		// An image that is there already will do.
		if exec.CommandContext(ctx, engine, "image", "inspect", image).Run() != nil {
			return nil, fmt.Errorf("%s pull %s: %w\n%s", engine, image, err, out)
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	name := "sqlfence-test-" + randomHex()
	args := []string{engine, "run", "--rm", "--name", name,
		"--publish", "127.0.0.1:" + strconv.Itoa(port) + ":5432",
		"--env", "POSTGRES_HOST_AUTH_METHOD=trust",
		image}
	for _, setting := range settings {
		if strings.HasPrefix(setting, "listen_addresses=") || strings.HasPrefix(setting, "unix_socket_directories=") {
			continue // the image's own: all addresses of the container, and a socket for its set-up
		}
		args = append(args, "-c", setting)
	}
	instance, err := program{args: args, stop: engine + " rm --force " + name + " >/dev/null"}.start()
	if err != nil {
		return nil, err
	}
	instance.Origin = engine + " image " + image
	if err := instance.answerPostgreSQL(ctx, port); err != nil {
		return nil, err
	}
	return instance, nil
}

// containerEngine returns the program whose engine answers, not merely exists.
func containerEngine(ctx context.Context) (string, error) {
	var refusals []error
	for _, engine := range []string{"docker", "podman"} {
		if _, err := exec.LookPath(engine); err != nil {
			refusals = append(refusals, fmt.Errorf("%s is not installed", engine))
			continue
		}
		if out, err := exec.CommandContext(ctx, engine, "info").CombinedOutput(); err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			refusals = append(refusals, fmt.Errorf("%s: no engine answers: %s", engine, lines[len(lines)-1]))
			continue
		}
		return engine, nil
	}
	return "", errors.Join(refusals...)
}
