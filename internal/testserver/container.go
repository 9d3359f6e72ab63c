package testserver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

func (w postgreSQLWanted) startContainer(ctx context.Context) (*Instance, error) {
	args := []string{}
	for _, setting := range settings {
		if strings.HasPrefix(setting, "listen_addresses=") || strings.HasPrefix(setting, "unix_socket_directories=") {
			continue // the image's own: all addresses of the container, and a socket for its set-up
		}
		args = append(args, "-c", setting)
	}
	return container{
		image:  fmt.Sprintf("postgres:%d", w.newest),
		port:   5432,
		env:    []string{"POSTGRES_HOST_AUTH_METHOD=trust"},
		args:   args,
		answer: (*Instance).answerPostgreSQL,
	}.start(ctx)
}

// container is a server that comes as an image.
type container struct {
	image  string
	port   int // that the server listens on in the container
	env    []string
	args   []string // after the image's name
	answer func(i *Instance, ctx context.Context, port int) error
}

// start runs the image if Docker or Podman answers.
func (c container) start(ctx context.Context) (*Instance, error) {
	engine, err := containerEngine(ctx)
	if err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, engine, "pull", c.image).CombinedOutput(); err != nil {
		// An image that is there already will do.
		if exec.CommandContext(ctx, engine, "image", "inspect", c.image).Run() != nil {
			return nil, fmt.Errorf("%s pull %s: %w\n%s", engine, c.image, err, out)
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	name := "sqlfence-test-" + randomHex()
	args := []string{engine, "run", "--rm", "--name", name,
		"--publish", fmt.Sprintf("127.0.0.1:%d:%d", port, c.port)}
	for _, env := range c.env {
		args = append(args, "--env", env)
	}
	args = append(append(args, c.image), c.args...)
	instance, err := program{args: args, stop: engine + " rm --force " + name + " >/dev/null"}.start()
	if err != nil {
		return nil, err
	}
	instance.Origin = engine + " image " + c.image
	if err := c.answer(instance, ctx, port); err != nil {
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
