package testserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// programNamed writes a stand-in for a server program that tells its version.
func programNamed(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mysqld")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho \"mysqld  Ver "+version+" for Linux on x86_64\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgramsOfMySQLThatAreNamed(t *testing.T) {
	old, patch, mysql, maria := programNamed(t, "5.7.44"), programNamed(t, "8.0.28"), programNamed(t, "8.0.46-0ubuntu0.24.04.5"), programNamed(t, "10.6.23-MariaDB-0")
	t.Setenv(EnvMySQLPrograms, " "+mysql+", "+maria+",")
	found, err := namedMySQLPrograms()
	if err != nil || len(found) != 2 || found[0].engine+found[0].version != "MySQL8.0.46" || found[1].engine+found[1].version != "MariaDB10.6.23" {
		t.Errorf("found %+v (%v), expected MySQL 8.0.46 and MariaDB 10.6.23", found, err)
	}
	for _, in := range found {
		if !in.named || !strings.Contains(in.origin, EnvMySQLPrograms) {
			t.Errorf("%+v does not tell who named it", in)
		}
	}
	if starts := startEveryMySQL(); len(starts) != 2 {
		t.Errorf("a run starts %d servers, expected both", len(starts))
	}
	for what, list := range map[string]string{
		"nothing there":       "/no/such/mysqld",
		"not supported":       mysql + "," + old,
		"too old a patch":     patch,
		"only commas":         " , ",
		"a path from nowhere": "mysqld",
	} {
		t.Run(what, func(t *testing.T) {
			t.Setenv(EnvMySQLPrograms, list)
			if found, err := namedMySQLPrograms(); err == nil || !strings.Contains(err.Error(), EnvMySQLPrograms) {
				t.Errorf("got %+v and error %v, expected an error that names %s", found, err, EnvMySQLPrograms)
			}
			starts := startEveryMySQL()
			if len(starts) != 1 {
				t.Fatalf("a run starts %d servers", len(starts))
			}
			if _, err := starts[0](t.Context()); err == nil || !strings.Contains(err.Error(), EnvMySQLPrograms) {
				t.Errorf("the run's error is %v, expected one that names %s", err, EnvMySQLPrograms)
			}
		})
	}
}

func TestTheScriptsOfAServerLieBesideItsCharacterSets(t *testing.T) {
	help := "basedir      /usr/\ncharacter-sets-dir           /opt/m/share/mariadb/charsets/\ncollation-server x\n"
	if got, err := sharedFolder([]byte(help)); err != nil || got != "/opt/m/share/mariadb" {
		t.Errorf("got %q (%v)", got, err)
	}
	if _, err := sharedFolder([]byte("basedir /usr/\n")); err == nil {
		t.Error("a server that tells no folder is no error")
	}
}

// What a program that is named is started by, with a server that is on this machine:
// of MariaDB from its scripts, without mariadb-install-db.
func TestANamedProgramBecomesAServer(t *testing.T) {
	program := restartableMySQL(t)[0].server
	t.Setenv(EnvMySQLPrograms, program)
	EachPrivateMySQL(t, func(t *testing.T, server *Private) {
		dsn := server.Database(t)
		server.Kill(t)
		server.Start(t)
		if _, err := openForTest(t, dsn).Exec("CREATE TABLE t (a INT) ENGINE = InnoDB"); err != nil {
			t.Error(err)
		}
		if !strings.Contains(server.instance.Origin, program) {
			t.Errorf("its origin is %q, expected %s in it", server.instance.Origin, program)
		}
	})
}
