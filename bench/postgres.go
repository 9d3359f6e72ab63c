package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"

	_ "github.com/sqlfence/sqlfence/driver/postgres" // registers "sqlfence-pgx" beside pgx's own "pgx"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

var postgreSQL = dialect{
	engine: sqlgen.PostgreSQL,
	create: []string{
		`CREATE TABLE sqlfence_bench_parent (id int PRIMARY KEY)`,
		`CREATE TABLE sqlfence_bench_update (id int PRIMARY KEY, n bigint NOT NULL)`,
		`CREATE TABLE sqlfence_bench_insert (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent int NOT NULL, n bigint NOT NULL)`,
		`CREATE TABLE sqlfence_bench_insert_fk (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent int NOT NULL REFERENCES sqlfence_bench_parent, n bigint NOT NULL)`,
	},
	reset:      []string{`TRUNCATE sqlfence_bench_update, sqlfence_bench_insert, sqlfence_bench_insert_fk`},
	drop:       []string{`DROP TABLE IF EXISTS sqlfence_bench_update, sqlfence_bench_insert, sqlfence_bench_insert_fk, sqlfence_bench_parent`},
	row:        `INSERT INTO sqlfence_bench_update VALUES (%d, 0)`,
	update:     `UPDATE sqlfence_bench_update SET n = n + $1 WHERE id = $2`,
	insert:     `INSERT INTO sqlfence_bench_insert (parent, n) VALUES ($1, $2)`,
	foreignKey: `INSERT INTO sqlfence_bench_insert_fk (parent, n) VALUES ($1, $2)`,
	lock:       `SELECT 1 FROM sqlfence.fences WHERE resource = $1 AND high_water = $2 AND grant_id = $3 FOR SHARE`,
}

// postgreSQLServers returns the URLs of the servers to measure: the one of
// o.dsn, or those that the tests use. The caller calls stop.
func postgreSQLServers(ctx context.Context, o options) (dsns []string, stop func() error, err error) {
	stop = func() error { return nil }
	switch {
	case !slices.Contains(o.engines, "postgres"):
		return nil, stop, nil
	case o.dsn != "":
		return []string{o.dsn}, stop, nil
	}
	run, err := testserver.StartRun(ctx)
	if err != nil {
		return nil, stop, err
	}
	for _, variable := range run.Env() {
		if list, ok := strings.CutPrefix(variable, testserver.EnvPostgreSQL+"="); ok {
			dsns = strings.Split(list, ",")
		}
	}
	return dsns, run.Stop, nil
}

// openPostgreSQL prepares the database at dsn.
func openPostgreSQL(ctx context.Context, dsn string, o options) (t *target, err error) {
	t = &target{dialect: postgreSQL}
	defer func() {
		if err != nil {
			_ = t.close()
		}
	}()
	// The ratios are to be those of the work, not of the disk.
	if dsn, err = withSetting(dsn, "synchronous_commit", "off"); err != nil {
		return nil, err
	}
	for _, h := range []struct {
		driver string
		db     **sql.DB
	}{{"pgx", &t.bare}, {"sqlfence-pgx", &t.fenced}, {"pgx", &t.locking}} {
		if *h.db, err = sql.Open(h.driver, dsn); err != nil {
			return nil, err
		}
		t.cleanup = append(t.cleanup, (*h.db).Close)
	}
	var version string
	if err = t.bare.QueryRowContext(ctx, `SHOW server_version`).Scan(&version); err != nil {
		return nil, fmt.Errorf("cannot reach the database: %w", err)
	}
	version, _, _ = strings.Cut(version, " ") // without the packager's addition
	t.name = "PostgreSQL " + version
	var settings []string
	for _, name := range []string{"synchronous_commit", "fsync", "shared_buffers"} {
		var value string
		if err = t.bare.QueryRowContext(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return nil, err
		}
		settings = append(settings, name+"="+value)
	}
	t.settings = "pgx through database/sql in its default mode; " + strings.Join(settings, ", ")
	return t, t.prepare(ctx, leasepg.New(t.fenced), o)
}

// withSetting adds a server setting to a URL.
func withSetting(dsn, name, value string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", fmt.Errorf("-dsn must be a PostgreSQL URL, such as postgres://user@localhost:5432/database")
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String(), nil
}
