package tickets_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/mysql"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/driver/sqlite"
	tickets "github.com/sqlfence/sqlfence/examples/libraries/migrate"
	before "github.com/sqlfence/sqlfence/examples/libraries/migrate/before"
	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
	"github.com/sqlfence/sqlfence/guard"
)

// The names of drivers with a policy for the table "tickets".
const (
	requiring = "sqlfence-requires-"
	auditing  = "sqlfence-audits-"
)

var audited atomic.Int64

func init() {
	report := func(guard.Audited) { audited.Add(1) }
	for prefix, opts := range map[string][]guard.PolicyOption{
		requiring: {guard.Tables("tickets"), guard.Require()},
		auditing:  {guard.Tables("tickets"), guard.Require(), guard.Audit(report)},
	} {
		policy, err := guard.NewPolicy(opts...)
		if err != nil {
			panic(err)
		}
		postgres.Register(prefix+"postgres", driver.WithPolicy(policy))
		sqlite.Register(prefix+"sqlite", driver.WithPolicy(policy))
		mysql.Register(prefix+"mysql", driver.WithPolicy(policy))
	}
}

func byName(name string) opener {
	return func(dsn string) (*sql.DB, error) { return sql.Open(name, dsn) }
}

// What golang-migrate runs has no token and cannot be given one. A policy that requires
// tokens cannot tell which tables several statements in one file write, if one of them
// is a definition: the pool for migrations is opened with the bare driver, or with a
// policy that only reports.
func TestMigrationsBesideAPolicy(t *testing.T) {
	for _, c := range []struct {
		engine        repertoire.Engine
		kind          tickets.Kind
		bare          opener
		requires, aud opener
	}{
		{repertoire.PostgreSQL, tickets.PostgreSQL, before.OpenPostgreSQL, byName(requiring + "postgres"), byName(auditing + "postgres")},
		{repertoire.SQLite, tickets.SQLite, before.OpenSQLite, byName(requiring + "sqlite"), byName(auditing + "sqlite")},
		{repertoire.MariaDB, tickets.MariaDB, several(before.OpenMariaDB), several(byName(requiring + "mysql")), several(byName(auditing + "mysql"))},
	} {
		open := func(t *testing.T, o opener, dsn string) *sql.DB {
			t.Helper()
			db, err := o(dsn)
			if err != nil {
				t.Fatal(err)
			}
			return db
		}
		c.engine.Fenced(t, func(t *testing.T, dsn string, _, _ context.Context) {
			err := tickets.Migrate(open(t, c.requires, dsn), c.kind)
			for _, part := range []string{"unguarded write", "run migrations over a handle without the policy"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("through the policy: %v; want an error that says %q", err, part)
				}
			}
		})
		c.engine.Fenced(t, func(t *testing.T, dsn string, _, _ context.Context) {
			reported := audited.Load()
			if err := tickets.Migrate(open(t, c.aud, dsn), c.kind); err != nil {
				t.Errorf("through an audit: %v", err)
			}
			if audited.Load() == reported {
				t.Error("the audit reported nothing")
			}
		})
		c.engine.Fenced(t, func(t *testing.T, dsn string, _, valid context.Context) {
			for _, step := range []func(*sql.DB, tickets.Kind) error{tickets.Migrate, tickets.Back, tickets.Migrate} {
				if err := step(open(t, c.bare, dsn), c.kind); err != nil {
					t.Fatalf("through the bare driver: %v", err)
				}
			}
			db := open(t, c.requires, dsn)
			defer db.Close()
			office := tickets.New(db, c.kind)
			if _, err := office.Sell(t.Context(), "1a"); !errors.Is(err, guard.ErrUnguarded) {
				t.Errorf("without a token: %v, want %v", err, guard.ErrUnguarded)
			}
			if _, err := office.Sell(valid, "1a"); err != nil {
				t.Errorf("with a valid token: %v", err)
			}
		})
	}
}

// With golang-migrate's x-multi-statement each statement is judged for itself:
// definitions and rows of other tables pass, rows of a listed one do not.
func TestStatementsOneByOneBesideAPolicy(t *testing.T) {
	repertoire.PostgreSQL.Fenced(t, func(t *testing.T, dsn string, _, _ context.Context) {
		source, err := iofs.New(fstest.MapFS{
			"1_a.up.sql": {Data: []byte("CREATE TABLE tickets (seat text); CREATE TABLE halls (name text); INSERT INTO halls VALUES ('big');")},
			"2_b.up.sql": {Data: []byte("ALTER TABLE tickets ADD COLUMN hall text; INSERT INTO tickets VALUES ('1a', 'big');")},
		}, ".")
		if err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open(requiring+"postgres", dsn)
		if err != nil {
			t.Fatal(err)
		}
		target, err := pgx.WithInstance(db, &pgx.Config{MultiStatementEnabled: true, MultiStatementMaxSize: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		m, err := migrate.NewWithInstance("iofs", source, "pgx5", target)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.Steps(1); err != nil {
			t.Errorf("definitions and another table: %v", err)
		}
		if err := m.Steps(1); err == nil || !strings.Contains(err.Error(), "unguarded write") {
			t.Errorf("a listed table: %v", err)
		}
	})
}
