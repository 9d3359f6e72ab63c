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

// mySQLSettings make a throwaway server quick without changing what a test can see:
// only what a crash of the machine would lose is given up.
var mySQLSettings = []string{
	"bind-address=127.0.0.1",
	"innodb-flush-log-at-trx-commit=2",
	"innodb-doublewrite=0",
	"innodb-buffer-pool-size=64M",
	"max-connections=500",
	"skip-log-bin",
	"table-open-cache=400", // fits the usual limit of open files
}

// mySQLInstallation is a server program of MariaDB or MySQL.
type mySQLInstallation struct {
	server  string // path of mariadbd or mysqld
	engine  string // "MariaDB" or "MySQL"
	version string // "10.11.19"
	origin  string
	named   bool // by EnvMySQLPrograms
}

// supported tells whether sqlfence promises to work with this version.
func (in mySQLInstallation) supported() bool {
	oldest := []int{10, 6}
	if in.engine == "MySQL" {
		oldest = []int{8, 0, 29}
	}
	return slices.Compare(in.numbers(), oldest) >= 0
}

// numbers returns the version's, nothing where it is none.
func (in mySQLInstallation) numbers() []int {
	var numbers []int
	for _, field := range strings.Split(in.version, ".") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// installedMySQL returns the supported installations on the machine, one per
// engine. Debian keeps the server out of an ordinary user's PATH.
func installedMySQL() []mySQLInstallation {
	folders := append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/libexec")
	for _, pattern := range []string{
		"/opt/homebrew/opt/mariadb*/bin", "/opt/homebrew/opt/mysql*/bin",
		"/usr/local/opt/mariadb*/bin", "/usr/local/opt/mysql*/bin",
		"/usr/local/mysql/bin",
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // the patterns are constants
		}
		folders = append(folders, matches...)
	}
	var found []mySQLInstallation
	for _, folder := range folders {
		for _, name := range []string{"mariadbd", "mysqld"} { // MariaDB's may have both names
			in, err := inspectMySQL(filepath.Join(folder, name))
			if err != nil || !in.supported() {
				continue
			}
			if !slices.ContainsFunc(found, func(other mySQLInstallation) bool { return other.engine == in.engine }) {
				in.origin = "program on this machine, " + in.server
				found = append(found, in)
			}
		}
	}
	return found
}

// inspectMySQL asks the server program for its version.
func inspectMySQL(server string) (mySQLInstallation, error) {
	if _, err := os.Stat(server); err != nil {
		return mySQLInstallation{}, err
	}
	out, err := exec.Command(server, "--no-defaults", "--version").Output()
	if err != nil {
		return mySQLInstallation{}, err
	}
	_, rest, ok := strings.Cut(string(out), " Ver ")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return mySQLInstallation{}, fmt.Errorf("%s does not tell its version: %q", server, out)
	}
	in := mySQLInstallation{server: server}
	in.engine, in.version = splitMySQLVersion(fields[0])
	return in, nil
}

// splitMySQLVersion takes "10.11.19-MariaDB-0+deb12u1" or "8.4.6" apart.
func splitMySQLVersion(text string) (engine, version string) {
	engine = "MySQL"
	if strings.Contains(text, "MariaDB") {
		engine = "MariaDB"
	}
	// Older clients are told "5.5.5-10.11…" by MariaDB, so that they take it for MySQL.
	version, _, _ = strings.Cut(strings.TrimPrefix(text, "5.5.5-"), "-")
	return engine, version
}

// start makes a data folder and runs a server on it.
func (in mySQLInstallation) start(ctx context.Context) (*Instance, error) {
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

// initialize makes a folder with a server's data in it, whose root has no password.
func (in mySQLInstallation) initialize(ctx context.Context) (folder string, err error) {
	as := unprivileged("mysql")
	folder, err = temporaryFolder("sqlfence-mysql-", as)
	if err != nil {
		return "", err
	}
	install, err := in.installer(ctx, filepath.Join(folder, "data"), as)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	install.Dir = folder
	install.Env = append(os.Environ(), "HOME="+folder, "TMPDIR="+folder)
	detach(install, as)
	if out, err := install.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w\n%s", install, err, out), os.RemoveAll(folder))
	}
	return folder, nil
}

// installer returns the command that makes a server's data.
func (in mySQLInstallation) installer(ctx context.Context, data string, as *user) (*exec.Cmd, error) {
	if in.engine != "MariaDB" {
		return exec.CommandContext(ctx, in.server, "--no-defaults", "--initialize-insecure", "--datadir="+data), nil
	}
	if in.named {
		return in.bootstrap(ctx, data, as)
	}
	script, err := in.installScript()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, script, "--no-defaults", "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"), nil
}

// installScript finds the script that makes MariaDB's system tables: in the
// folder of the server, or in the bin beside its sbin.
func (in mySQLInstallation) installScript() (string, error) {
	folder := filepath.Dir(in.server)
	for _, dir := range []string{folder, filepath.Join(folder, "..", "bin"), filepath.Join(folder, "..", "scripts")} {
		script := filepath.Join(dir, "mariadb-install-db")
		if _, err := os.Stat(script); err == nil {
			return script, nil
		}
	}
	return "", fmt.Errorf("there is no mariadb-install-db near %s", in.server)
}

// run runs a server on the folder; more are settings ("name=value") that override ours.
func (in mySQLInstallation) run(ctx context.Context, folder string, port int, more []string) (*Instance, error) {
	args := []string{in.server, "--no-defaults",
		"--datadir=" + filepath.Join(folder, "data"),
		"--socket=" + filepath.Join(folder, "socket"),
		"--pid-file=" + filepath.Join(folder, "pid"),
		"--tmpdir=" + folder,
		"--port=" + strconv.Itoa(port),
	}
	for _, setting := range slices.Concat(mySQLSettings, more) {
		args = append(args, "--"+setting)
	}
	if in.engine == "MySQL" {
		// It would listen on a port of its own, and want a folder that its package makes.
		args = append(args, "--mysqlx=OFF", "--secure-file-priv=")
	} else {
		args = append(args, "--skip-name-resolve") // MySQL's root is that of localhost alone
	}
	instance, err := program{
		args:   args,
		env:    []string{"HOME=" + folder},
		stop:   `case $how in stop) kill -TERM "$pid" ;; *) kill -KILL "$pid" ;; esac`,
		folder: folder,
		user:   unprivileged("mysql"),
	}.start()
	if err == nil {
		instance.Origin = in.origin
		err = instance.answerMySQL(ctx, port)
	}
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", in.engine, in.server, err)
	}
	return instance, nil
}

// answerMySQL waits until the server takes connections, and fills in what is known
// of it then. It stops a server that does not answer.
func (i *Instance) answerMySQL(ctx context.Context, port int) error {
	i.DSN = fmt.Sprintf("root@tcp(127.0.0.1:%d)/", port)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := i.waitReady(ctx, func(ctx context.Context) (err error) {
		i.Engine, i.Version, err = mySQLVersion(ctx, i.DSN)
		return err
	})
	if err != nil {
		return errors.Join(err, i.Stop())
	}
	return nil
}

// startAnyMySQL starts the first MariaDB or MySQL that can be had.
func startAnyMySQL(ctx context.Context) (*Instance, error) {
	return startFirst(ctx, []source{
		{"program on this machine", startInstalledMySQL},
		{"container", container{
			image:  "mariadb:lts",
			port:   3306,
			env:    []string{"MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=1"},
			args:   []string{"--skip-name-resolve", "--max-connections=500", "--innodb-flush-log-at-trx-commit=2"},
			answer: (*Instance).answerMySQL,
		}.start},
		{"Debian package", func(ctx context.Context) (*Instance, error) {
			if err := installDebian(ctx, []string{"apt-get", "install", "--yes", "--no-install-recommends", "mariadb-server"}); err != nil {
				return nil, err
			}
			instance, err := startInstalledMySQL(ctx)
			return debianInstance(instance, err)
		}},
	}, "no server for MariaDB (10.6 or newer) or MySQL (8.0.29 or newer).\n"+
		"Install one of these and run again: MariaDB with its server program (Debian, Ubuntu: apt-get install mariadb-server; "+
		"macOS: brew install mariadb), or MySQL; or a running Docker or Podman.\n"+
		"Or name servers of yours: "+EnvMySQL+"=root@tcp(127.0.0.1:3306)/[,…], or programs: "+EnvMySQLPrograms+"=/path/of/mysqld[,…]")
}

func startInstalledMySQL(ctx context.Context) (*Instance, error) {
	found := installedMySQL()
	if len(found) == 0 {
		return nil, errors.New("none found on the PATH or in the usual places")
	}
	return found[0].start(ctx)
}

// startEveryMySQL returns how to start what a whole run tests against: each program
// that is named; else each engine that is on the machine, else the first that can be
// had.
func startEveryMySQL() []func(context.Context) (*Instance, error) {
	found, err := namedMySQLPrograms()
	if err != nil {
		return []func(context.Context) (*Instance, error){func(context.Context) (*Instance, error) { return nil, err }}
	}
	if found == nil {
		if found = installedMySQL(); len(found) < 2 {
			return []func(context.Context) (*Instance, error){startAnyMySQL}
		}
	}
	var all []func(context.Context) (*Instance, error)
	for _, in := range found {
		all = append(all, in.start)
	}
	return all
}
