package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// EnvPgBouncer is the path of the PgBouncer program to test with, where it is not
// to be looked for. A pooler stands before one database, so tests start their own.
const EnvPgBouncer = "SQLFENCE_TEST_PGBOUNCER"

// pooler is a PgBouncer program.
type pooler struct {
	program, version, origin string
}

// pgBouncer finds the program of this process once.
var pgBouncer = sync.OnceValues(func() (pooler, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return findPgBouncer(ctx)
})

// findPgBouncer looks on the machine, then asks Debian. There is no official image.
func findPgBouncer(ctx context.Context) (pooler, error) {
	if named := os.Getenv(EnvPgBouncer); named != "" {
		found, err := inspectPgBouncer(named)
		if err != nil {
			return pooler{}, fmt.Errorf("%s names no PgBouncer: %w", EnvPgBouncer, err)
		}
		found.origin = "named by " + EnvPgBouncer
		return found, nil
	}
	found, err := installedPgBouncer()
	if err == nil {
		return found, nil
	}
	refused := installDebian(ctx, []string{"apt-get", "install", "--yes", "--no-install-recommends", "pgbouncer"})
	if refused == nil {
		if found, refused = installedPgBouncer(); refused == nil {
			found.origin = "Debian package, " + found.origin
			return found, nil
		}
	}
	return pooler{}, fmt.Errorf("no PgBouncer.\nInstall it and run again (Debian, Ubuntu: apt-get install pgbouncer; macOS: brew install pgbouncer), "+
		"or name its program: %s=/path/of/pgbouncer\nTried:\n%w", EnvPgBouncer, errors.Join(indented([]error{
		fmt.Errorf("program on this machine: %w", err), fmt.Errorf("package of Debian: %w", refused)})...))
}

func installedPgBouncer() (pooler, error) {
	for _, folder := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin") {
		found, err := inspectPgBouncer(filepath.Join(folder, "pgbouncer"))
		if err == nil {
			found.origin = "program on this machine, " + found.program
			return found, nil
		}
	}
	return pooler{}, errors.New("none found on the PATH or in the usual places")
}

func inspectPgBouncer(path string) (pooler, error) {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return pooler{}, err
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 || fields[0] != "PgBouncer" {
		return pooler{}, fmt.Errorf("%s does not tell its version: %q", path, out)
	}
	return pooler{program: path, version: fields[1]}, nil
}

// PgBouncer starts a PgBouncer in transaction mode before the database and returns
// the URL that leads through it. It ends with the test. Settings
// ("max_prepared_statements=100") override ours. There are at most four connections
// to the database, so that sessions change hands.
func PgBouncer(t testing.TB, dsn string, settings ...string) string {
	t.Helper()
	found, err := pgBouncer()
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	instance, err := found.start(ctx, dsn, settings)
	if err != nil {
		t.Fatalf("testserver: PgBouncer %s: %v", found.version, err)
	}
	t.Cleanup(func() {
		if err := instance.Stop(); err != nil {
			t.Errorf("testserver: PgBouncer: %v", err)
		}
	})
	record(t, "PgBouncer", found.version)
	return instance.DSN
}

func (found pooler) start(ctx context.Context, dsn string, settings []string) (*Instance, error) {
	target, err := url.Parse(dsn)
	if err != nil || target.Port() == "" {
		return nil, fmt.Errorf("%q is no URL with a port", dsn)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	as := unprivileged("postgres")
	folder, err := temporaryFolder("sqlfence-pgbouncer-", as)
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(target.Path, "/")
	to := fmt.Sprintf("host=%s port=%s dbname=%s user=%s", target.Hostname(), target.Port(), name, target.User.Username())
	if password, ok := target.User.Password(); ok {
		to += " password=" + password
	}
	lines := append([]string{
		"[databases]", name + " = " + to,
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", port), "unix_socket_dir =",
		"auth_type = any", "pool_mode = transaction", "default_pool_size = 4", "max_client_conn = 300",
		"ignore_startup_parameters = extra_float_digits", "log_connections = 0", "log_disconnections = 0",
	}, settings...)
	file := filepath.Join(folder, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	instance, err := program{
		args:   []string{found.program, file},
		stop:   `kill -KILL "$pid"`,
		folder: folder,
		user:   as,
	}.start()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	instance.Server = Server{Engine: "PgBouncer", Version: found.version}
	target.Host = fmt.Sprintf("127.0.0.1:%d", port)
	instance.DSN = target.String()
	err = instance.waitReady(ctx, func(ctx context.Context) error {
		_, err := postgreSQLVersion(ctx, instance.DSN)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, instance.Stop())
	}
	return instance, nil
}
