package testserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// EnvMySQL names the MariaDB and MySQL servers to test against: data source names
// of github.com/go-sql-driver/mysql, of a superuser and without a database,
// separated by commas. 500 connections are used at most.
const EnvMySQL = "SQLFENCE_TEST_MYSQL"

// mySQL finds the servers of this process once.
var mySQL = sync.OnceValues(func() ([]Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if list := os.Getenv(EnvMySQL); list != "" {
		return namedMySQL(ctx, list)
	}
	start := []func(context.Context) (*Instance, error){startAnyMySQL}
	if os.Getenv(EnvMySQLPrograms) != "" {
		start = startEveryMySQL()
	}
	var servers []Server
	for _, one := range start {
		instance, err := one(ctx)
		if err != nil {
			return nil, err
		}
		keep(instance)
		servers = append(servers, instance.Server)
	}
	return servers, nil
})

// MySQL returns every MariaDB and MySQL server of this run, at least one. The test
// fails if there is none.
func MySQL(t testing.TB) []Server {
	t.Helper()
	servers, err := mySQL()
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	return servers
}

// EachMySQL runs fn as a subtest per MariaDB and MySQL server, named after its
// version, with the data source name (of github.com/go-sql-driver/mysql) of an
// empty database of its own.
func EachMySQL(t *testing.T, fn func(t *testing.T, dsn string)) {
	t.Helper()
	for _, server := range MySQL(t) {
		t.Run(server.Engine+"_"+server.Version, func(t *testing.T) {
			fn(t, server.Database(t))
		})
	}
}

func (s Server) createMySQL(ctx context.Context, name string) (dsn string, err error) {
	config, err := mysql.ParseDSN(s.DSN)
	if err != nil {
		return "", err
	}
	db, err := openMySQL(s.DSN)
	if err != nil {
		return "", err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return "", err
	}
	config.DBName = name
	return config.FormatDSN(), nil
}

// dropMySQL removes the database. A session that is in it with an open transaction
// would hold that up for good, so those are ended first.
func (s Server) dropMySQL(ctx context.Context, name, _ string) error {
	db, err := openMySQL(s.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = ?", name)
	if err != nil {
		return err
	}
	var sessions []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return errors.Join(err, rows.Close())
		}
		sessions = append(sessions, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, id := range sessions {
		var gone *mysql.MySQLError
		if _, err := db.ExecContext(ctx, fmt.Sprintf("KILL %d", id)); err != nil && (!errors.As(err, &gone) || gone.Number != 1094) { // unknown thread id
			return err
		}
	}
	_, err = db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name)
	return err
}

// namedMySQL asks the listed servers for their versions.
func namedMySQL(ctx context.Context, list string) ([]Server, error) {
	var servers []Server
	for _, dsn := range strings.Split(list, ",") {
		dsn = strings.TrimSpace(dsn)
		if dsn == "" {
			continue
		}
		engine, version, err := mySQLVersion(ctx, dsn)
		if err != nil {
			return nil, fmt.Errorf("%s names a server that does not answer: %w", EnvMySQL, err)
		}
		servers = append(servers, Server{Engine: engine, Version: version, DSN: dsn})
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s is set and names no server", EnvMySQL)
	}
	return servers, nil
}

// mySQLVersion connects and asks.
func mySQLVersion(ctx context.Context, dsn string) (engine, version string, err error) {
	db, err := openMySQL(dsn)
	if err != nil {
		return "", "", err
	}
	defer db.Close()
	var text string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&text); err != nil {
		return "", "", err
	}
	engine, version = splitMySQLVersion(text)
	return engine, version, nil
}

// openMySQL opens a pool whose driver does not print to the tests' output what it
// also returns, as it does for a server that is not there yet.
func openMySQL(dsn string) (*sql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
