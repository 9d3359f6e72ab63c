package testserver

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

func openForTest(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := openMySQL(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func askRedis(t *testing.T, dsn string, command ...string) string {
	t.Helper()
	conn, err := dialRedis(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, number, ok := strings.Cut(strings.TrimPrefix(dsn, "redis://"), "/"); ok {
		if _, _, err := conn.ask("SELECT", number); err != nil {
			t.Fatal(err)
		}
	}
	answer, _, err := conn.ask(command...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestEachMySQLGivesAnEmptyDatabaseAndDropsItWithItsSessions(t *testing.T) {
	outer := t
	var used []string
	EachMySQL(t, func(t *testing.T, dsn string) {
		used = append(used, dsn)
		db, err := openMySQL(dsn)
		if err != nil {
			t.Fatal(err)
		}
		var tables int
		if err := db.QueryRow("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&tables); err != nil || tables != 0 {
			t.Errorf("a fresh database has %d tables (%v), expected none", tables, err)
		}
		if _, err := db.Exec("CREATE TABLE t (a INT) ENGINE=InnoDB"); err != nil {
			t.Fatal(err)
		}
		// A transaction that is left open holds up DROP DATABASE.
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO t VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		outer.Cleanup(func() { // after the database is dropped
			tx.Rollback()
			db.Close()
		})
	})
	for _, dsn := range used {
		db := openForTest(t, dsn)
		var refused *mysql.MySQLError
		if err := db.Ping(); !errors.As(err, &refused) || refused.Number != 1049 {
			t.Errorf("connecting after the test: %v, expected that the database is unknown", err)
		}
	}
}

func TestEachRedisGivesAnEmptyDatabaseOfItsOwn(t *testing.T) {
	for _, server := range Redis(t) {
		var one string
		t.Run("Redis_"+server.Version, func(t *testing.T) {
			one = server.Database(t)
			other := server.Database(t)
			if one == other {
				t.Fatalf("two databases have the URL %s", one)
			}
			askRedis(t, one, "SET", "key", "value")
			if got := askRedis(t, other, "GET", "key"); got != "" {
				t.Errorf("the other database has the key, %q", got)
			}
		})
		if got := askRedis(t, one, "GET", "key"); got != "" {
			t.Errorf("the key is there after the test: %q", got)
		}
	}
}

func TestPgBouncerHandsOneSessionToSeveralClients(t *testing.T) {
	dsn := PgBouncer(t, PostgreSQL(t)[0].Database(t), "default_pool_size = 1")
	backend := func() (pid int) {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	if one, two := backend(), backend(); one != two {
		t.Errorf("two clients had sessions %d and %d, expected one after the other to have the same", one, two)
	}
}

func TestPrivateServersKeepTheirDataWhenStoppedAndKilled(t *testing.T) {
	for engine, c := range map[string]struct {
		start func(*testing.T) *Private
		write func(t *testing.T, dsn string)
		count func(t *testing.T, dsn string) string
	}{
		"PostgreSQL": {
			func(t *testing.T) *Private { return PrivatePostgreSQL(t, "fsync=on") },
			func(t *testing.T, dsn string) {
				conn := connect(t, dsn)
				defer conn.Close(t.Context())
				if _, err := conn.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS t (a int); INSERT INTO t VALUES (1)"); err != nil {
					t.Fatal(err)
				}
			},
			func(t *testing.T, dsn string) (n string) {
				conn := connect(t, dsn)
				defer conn.Close(t.Context())
				if err := conn.QueryRow(t.Context(), "SELECT count(*)::text FROM t").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			},
		},
		"MySQL": {
			func(t *testing.T) *Private { return PrivateMySQL(t, "innodb-flush-log-at-trx-commit=1") },
			func(t *testing.T, dsn string) {
				db := openForTest(t, dsn)
				for _, text := range []string{"CREATE DATABASE IF NOT EXISTS d", "CREATE TABLE IF NOT EXISTS d.t (a INT) ENGINE=InnoDB", "INSERT INTO d.t VALUES (1)"} {
					if _, err := db.Exec(text); err != nil {
						t.Fatal(err)
					}
				}
			},
			func(t *testing.T, dsn string) (n string) {
				if err := openForTest(t, dsn).QueryRow("SELECT COUNT(*) FROM d.t").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			},
		},
		"Redis": {
			func(t *testing.T) *Private { return PrivateRedis(t, "appendonly=yes", "appendfsync=always") },
			func(t *testing.T, dsn string) { askRedis(t, dsn, "INCR", "t") },
			func(t *testing.T, dsn string) string { return askRedis(t, dsn, "GET", "t") },
		},
	} {
		t.Run(engine, func(t *testing.T) {
			server := c.start(t)
			dsn := server.DSN
			c.write(t, dsn)
			server.Kill(t)
			server.Start(t)
			c.write(t, dsn)
			server.Stop(t)
			server.Start(t)
			if server.DSN != dsn {
				t.Errorf("the server came back at %s, expected %s", server.DSN, dsn)
			}
			if got := c.count(t, dsn); got != "2" {
				t.Errorf("%s writes are there, expected both", got)
			}
		})
	}
}

func TestPrivateServersLeaveNothingBehind(t *testing.T) {
	var folder string
	t.Run("test", func(t *testing.T) {
		server := PrivateRedis(t, "appendonly=yes")
		folder = server.folder
		server.Kill(t)
		server.Start(t)
	})
	if !gone(folder) {
		t.Errorf("%s is there after the test", folder)
	}
}

func TestMySQLVersionsAreTakenApart(t *testing.T) {
	for text, want := range map[string]mySQLInstallation{
		"10.11.19-MariaDB-0+deb12u1":  {engine: "MariaDB", version: "10.11.19"},
		"5.5.5-10.6.18-MariaDB-log":   {engine: "MariaDB", version: "10.6.18"},
		"8.4.6":                       {engine: "MySQL", version: "8.4.6"},
		"8.0.41-0ubuntu0.24.04.1":     {engine: "MySQL", version: "8.0.41"},
		"11.4.2-MariaDB-ubu2404-info": {engine: "MariaDB", version: "11.4.2"},
	} {
		engine, version := splitMySQLVersion(text)
		if engine != want.engine || version != want.version {
			t.Errorf("%q reads as %s %s, expected %s %s", text, engine, version, want.engine, want.version)
		}
		if !want.supported() {
			t.Errorf("%s %s counts as unsupported", want.engine, want.version)
		}
	}
	for _, in := range []mySQLInstallation{{engine: "MariaDB", version: "10.5.9"}, {engine: "MySQL", version: "5.7.44"}, {engine: "MySQL", version: "x"}} {
		if in.supported() {
			t.Errorf("%s %s counts as supported", in.engine, in.version)
		}
	}
}

// MySQL itself is rarely there where this runs: a stand-in shows what it is asked for.
func TestMySQLIsInitializedByItself(t *testing.T) {
	bin := t.TempDir()
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	calls := filepath.Join("/tmp", "sqlfence-mysqld-"+randomHex())
	t.Cleanup(func() { os.Remove(calls) })
	script := "#!/bin/sh\ncase $* in *--version*) echo \"mysqld  Ver 8.4.6 for Linux on x86_64 (MySQL Community Server - GPL)\"; exit;; esac\necho \"$@\" >>" + calls + "\n"
	if err := os.WriteFile(filepath.Join(bin, "mysqld"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := inspectMySQL(filepath.Join(bin, "mysqld"))
	if err != nil || in.engine != "MySQL" || in.version != "8.4.6" {
		t.Fatalf("got %+v (%v), expected MySQL 8.4.6", in, err)
	}
	if !reachable(bin) {
		in.server = copyProgram(t, in.server)
	}
	folder, err := in.initialize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	text, err := os.ReadFile(calls)
	if want := "--no-defaults --initialize-insecure --datadir=" + filepath.Join(folder, "data") + "\n"; string(text) != want {
		t.Errorf("mysqld was called with %q (%v), expected %q", text, err, want)
	}
}

// copyProgram puts a program where every user can run it.
func copyProgram(t *testing.T, from string) string {
	t.Helper()
	folder, err := temporaryFolder("sqlfence-program-", unprivileged("mysql"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	to := filepath.Join(folder, filepath.Base(from))
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestNamedServersOfOtherEnginesThatDoNotAnswerAreAnError(t *testing.T) {
	for name, c := range map[string]struct {
		env  string
		list string
		ask  func(list string) ([]Server, error)
	}{
		"MySQL, nobody listens": {EnvMySQL, "root@tcp(127.0.0.1:1)/", func(list string) ([]Server, error) { return namedMySQL(t.Context(), list) }},
		"MySQL, only commas":    {EnvMySQL, " , ", func(list string) ([]Server, error) { return namedMySQL(t.Context(), list) }},
		"Redis, nobody listens": {EnvRedis, "redis://127.0.0.1:1", func(list string) ([]Server, error) { return namedRedis(t.Context(), list) }},
		"Redis, no URL":         {EnvRedis, "127.0.0.1:6379", func(list string) ([]Server, error) { return namedRedis(t.Context(), list) }},
		"Redis, only commas":    {EnvRedis, " , ", func(list string) ([]Server, error) { return namedRedis(t.Context(), list) }},
	} {
		t.Run(name, func(t *testing.T) {
			servers, err := c.ask(c.list)
			if err == nil || !strings.Contains(err.Error(), c.env) {
				t.Errorf("got %v and error %v, expected an error that names %s", servers, err, c.env)
			}
		})
	}
	t.Setenv(EnvPgBouncer, "/no/such/program")
	if found, err := findPgBouncer(t.Context()); err == nil || !strings.Contains(err.Error(), EnvPgBouncer) {
		t.Errorf("got %v and error %v, expected an error that names %s", found, err, EnvPgBouncer)
	}
}
