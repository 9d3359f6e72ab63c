// Package testserver hands real database servers to tests.
//
// Servers come, in this order, from the environment (SQLFENCE_TEST_POSTGRES,
// SQLFENCE_TEST_MYSQL, SQLFENCE_TEST_REDIS), from programs on the machine (or those of
// SQLFENCE_TEST_MYSQLD), from
// packages that carry the server's programs, from containers, and as root from
// Debian packages. What is not given by the
// environment is a throwaway instance on a free loopback port, with its data in a
// temporary folder; it ends with the process that started it, also when that
// process is killed.
//
// `make test` starts each server once for the whole run and names it in the
// environment. A plain `go test ./pkg` starts one of its own per test binary.
//
// A test that asks for a server which cannot be had fails and says what to
// install. Nothing here skips a test.
package testserver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// EnvPostgreSQL names the PostgreSQL servers to test against: URLs of a
// superuser, separated by commas. Tests that prepare transactions need
// max_prepared_transactions of 20 there, and 300 connections are used at most.
const EnvPostgreSQL = "SQLFENCE_TEST_POSTGRES"

// Server is one running database server. It is safe for concurrent use.
type Server struct {
	Engine  string // "PostgreSQL", "MariaDB", "MySQL" or "Redis"
	Version string // as the server tells it, without the packager's addition: "15.18"
	DSN     string // of a superuser; PostgreSQL: a URL, for the database "postgres"
}

// Major returns the first number of the version: 15 for "15.18", 18 for "18beta1".
func (s Server) Major() int {
	digits := s.Version
	for i, r := range digits {
		if r < '0' || r > '9' {
			digits = digits[:i]
			break
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// postgreSQL finds the servers of this process once.
var postgreSQL = sync.OnceValues(func() ([]Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if list := os.Getenv(EnvPostgreSQL); list != "" {
		return namedPostgreSQL(ctx, list)
	}
	instance, err := startAnyPostgreSQL(ctx)
	if err != nil {
		return nil, err
	}
	keep(instance)
	return []Server{instance.Server}, nil
})

// PostgreSQL returns every PostgreSQL server of this run, at least one; under
// `make test` the newest supported major and an older one. The test fails if
// there is none.
func PostgreSQL(t testing.TB) []Server {
	t.Helper()
	servers, err := postgreSQL()
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	return servers
}

// EachPostgreSQL runs fn as a subtest per PostgreSQL server, named after its
// version, with the URL of an empty database of its own.
func EachPostgreSQL(t *testing.T, fn func(t *testing.T, dsn string)) {
	t.Helper()
	for _, server := range PostgreSQL(t) {
		t.Run("PostgreSQL_"+server.Version, func(t *testing.T) {
			fn(t, server.Database(t))
		})
	}
}

// Database creates an empty database on the server and returns its DSN. The
// database is dropped at the end of the test, with whatever sessions, and on
// PostgreSQL prepared transactions, are left in it.
func (s Server) Database(t testing.TB) string {
	t.Helper()
	create, drop := s.createPostgreSQL, s.dropPostgreSQL
	switch s.Engine {
	case "MariaDB", "MySQL":
		create, drop = s.createMySQL, s.dropMySQL
	case "Redis":
		create, drop = s.claimRedis, s.giveBackRedis
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := databaseName(t.Name())
	dsn, err := create(ctx, name)
	if err != nil {
		t.Fatalf("testserver: %s %s: creating a database: %v", s.Engine, s.Version, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := drop(ctx, name, dsn); err != nil {
			t.Errorf("testserver: %s %s: dropping database %s: %v", s.Engine, s.Version, name, err)
		}
	})
	record(t, s.Engine, s.Version)
	return dsn
}

func (s Server) createPostgreSQL(ctx context.Context, name string) (dsn string, err error) {
	if err := s.exec(ctx, s.DSN, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return withDatabase(s.DSN, name)
}

func (s Server) exec(ctx context.Context, dsn, sql string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// dropPostgreSQL removes the database. FORCE ends sessions but refuses prepared
// transactions, which can be rolled back from within their database only.
func (s Server) dropPostgreSQL(ctx context.Context, name, dsn string) error {
	conn, err := pgx.Connect(ctx, s.DSN)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database = $1", name)
	if err != nil {
		return err
	}
	prepared, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, gid := range prepared {
		if err := s.exec(ctx, dsn, "ROLLBACK PREPARED '"+strings.ReplaceAll(gid, "'", "''")+"'"); err != nil {
			return fmt.Errorf("rolling back prepared transaction %q: %w", gid, err)
		}
	}
	_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	return err
}

// databaseName makes an identifier that needs no quotes, tells the test and
// meets no other: at most 63 bytes.
func databaseName(test string) string {
	var b strings.Builder
	b.WriteString("sqlfence_")
	for _, r := range strings.ToLower(test) {
		if b.Len() == 44 {
			break
		}
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	return b.String() + "_" + randomHex()
}

func randomHex() string {
	var raw [6]byte
	rand.Read(raw[:]) // never fails since Go 1.24
	return hex.EncodeToString(raw[:])
}

func withDatabase(dsn, name string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("%s: not a URL: %w", EnvPostgreSQL, err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// namedPostgreSQL asks the listed servers for their versions.
func namedPostgreSQL(ctx context.Context, list string) ([]Server, error) {
	var servers []Server
	for _, dsn := range strings.Split(list, ",") {
		dsn = strings.TrimSpace(dsn)
		if dsn == "" {
			continue
		}
		version, err := postgreSQLVersion(ctx, dsn)
		if err != nil {
			return nil, fmt.Errorf("%s names a server that does not answer: %w", EnvPostgreSQL, err)
		}
		servers = append(servers, Server{Engine: "PostgreSQL", Version: version, DSN: dsn})
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s is set and names no server", EnvPostgreSQL)
	}
	return servers, nil
}

// postgreSQLVersion connects and returns "15.18" of "15.18 (Debian 15.18-0)".
func postgreSQLVersion(ctx context.Context, dsn string) (string, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	version, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	return version, nil
}
