package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The majors that are supported, and so tested.
const (
	oldestPostgreSQL = 13
	newestPostgreSQL = 18
)

// settings make a throwaway server quick without changing what a test can see:
// only what a crash of the machine would lose is given up.
var settings = []string{
	"listen_addresses=127.0.0.1",
	"unix_socket_directories=",
	"fsync=off",
	"full_page_writes=off",
	"max_connections=300",
	"max_prepared_transactions=20",
	"shared_buffers=64MB",
	"jit=off",
	"logging_collector=off",
	"log_min_messages=fatal",
	"log_min_error_statement=panic",
}

// installation is a folder with PostgreSQL's programs.
type installation struct {
	bin     string
	version string // "15.18"
	origin  string
}

func (in installation) major() int { return Server{Version: in.version}.Major() }

// installedPostgreSQL returns the supported installations on the machine, one per
// major, the oldest first. The server's programs are rarely on the PATH.
func installedPostgreSQL() []installation {
	folders := filepath.SplitList(os.Getenv("PATH"))
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // Red Hat's relatives
		"/usr/lib/postgresql*/bin",  // SUSE, Alpine
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // the patterns are constants
		}
		folders = append(folders, matches...)
	}
	var found []installation
	for _, bin := range folders {
		in, err := inspectPostgreSQL(bin)
		if err != nil || in.major() < oldestPostgreSQL || in.major() > newestPostgreSQL {
			continue
		}
		if !slices.ContainsFunc(found, func(other installation) bool { return other.major() == in.major() }) {
			in.origin = "programs on this machine, " + bin
			found = append(found, in)
		}
	}
	slices.SortFunc(found, func(a, b installation) int { return a.major() - b.major() })
	return found
}

// inspectPostgreSQL asks the server program in bin for its version.
func inspectPostgreSQL(bin string) (installation, error) {
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		return installation{}, err
	}
	out, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return installation{}, err
	}
	_, rest, ok := strings.Cut(string(out), "(PostgreSQL) ")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return installation{}, fmt.Errorf("%s does not tell its version: %q", bin, out)
	}
	return installation{bin: bin, version: fields[0]}, nil
}

// start makes a database cluster and runs a server on it.
func (in installation) start(ctx context.Context) (*Instance, error) {
	folder, err := in.initialize(ctx)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	instance, err := in.run(ctx, folder, port, nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return instance, nil
}

// initialize makes a folder with a database cluster in it.
func (in installation) initialize(ctx context.Context) (folder string, err error) {
	as := unprivileged("postgres")
	folder, err = temporaryFolder("sqlfence-postgres-", as)
	if err != nil {
		return "", err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(in.bin, "initdb"), "--pgdata="+filepath.Join(folder, "data"),
		"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	initdb.Dir = folder
	initdb.Env = append(os.Environ(), "HOME="+folder)
	detach(initdb, as)
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("initdb of %s: %w\n%s", in.bin, err, out), os.RemoveAll(folder))
	}
	return folder, nil
}

// run runs a server on the folder; more are settings ("name=value") that override ours.
func (in installation) run(ctx context.Context, folder string, port int, more []string) (*Instance, error) {
	args := []string{filepath.Join(in.bin, "postgres"), "-D", filepath.Join(folder, "data"), "-c", "port=" + strconv.Itoa(port)}
	for _, setting := range slices.Concat(settings, more) {
		args = append(args, "-c", setting)
	}
	instance, err := program{
		args: args,
		env:  []string{"HOME=" + folder},
		// Fast shutdown writes a checkpoint; without a word, immediate shutdown is
		// enough, as nobody reads the data again. To be killed, the sessions must not
		// outlive their parent: a new one would refuse to start beside them.
		stop: `case $how in
			stop) kill -INT "$pid" ;;
			kill) kill -STOP "$pid"; kill -KILL $(pgrep -P "$pid") "$pid" ;;
			*) kill -QUIT "$pid" ;;
			esac`,
		folder: folder,
		user:   unprivileged("postgres"),
	}.start()
	if err == nil {
		instance.Origin = in.origin
		err = instance.answerPostgreSQL(ctx, port)
	}
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL of %s: %w", in.bin, err)
	}
	return instance, nil
}

// answerPostgreSQL waits until the server takes connections, and fills in what is
// known of it then. It stops a server that does not answer.
func (i *Instance) answerPostgreSQL(ctx context.Context, port int) error {
	i.Engine = "PostgreSQL"
	i.DSN = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := i.waitReady(ctx, func(ctx context.Context) (err error) {
		i.Version, err = postgreSQLVersion(ctx, i.DSN)
		return err
	})
	if err != nil {
		return errors.Join(err, i.Stop())
	}
	return nil
}

// temporaryFolder makes a folder that the user of the server owns and can enter,
// which a TMPDIR inside root's home does not allow.
func temporaryFolder(prefix string, as *user) (string, error) {
	parent := os.TempDir()
	if as != nil && !reachable(parent) {
		parent = "/tmp"
	}
	folder, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", err
	}
	if as != nil {
		if err := os.Chown(folder, as.uid, as.gid); err != nil {
			return "", errors.Join(err, os.Remove(folder))
		}
	}
	return folder, nil
}

// startAnyPostgreSQL starts the first PostgreSQL that can be had.
func startAnyPostgreSQL(ctx context.Context) (*Instance, error) {
	return postgreSQLWanted{name: "PostgreSQL", oldest: oldestPostgreSQL, newest: newestPostgreSQL}.start(ctx)
}
