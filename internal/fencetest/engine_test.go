package fencetest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// A handle, a lease store and an engine that do not belong together: the error says so,
// and not what the server thinks of a text that it was never meant to read.
func TestADatabaseOfAnotherEngine(t *testing.T) {
	engines := []sqlgen.Engine{sqlgen.PostgreSQL, sqlgen.SQLite, sqlgen.MySQL}
	stores := map[sqlgen.Engine]func(db *sql.DB) lease.Store{
		sqlgen.PostgreSQL: func(db *sql.DB) lease.Store { return leasepg.New(db) },
		sqlgen.SQLite:     func(db *sql.DB) lease.Store { return leasesqlite.New(db) },
		sqlgen.MySQL:      func(db *sql.DB) lease.Store { return leasemysql.New(db) },
	}
	databases := map[sqlgen.Engine]struct{ driver, dsn string }{
		sqlgen.PostgreSQL: {"pgx", testserver.PostgreSQL(t)[0].Database(t)},
		sqlgen.SQLite:     {"sqlite", "file:" + testserver.SQLiteFile(t)},
		sqlgen.MySQL:      {"mysql", testserver.MySQL(t)[0].Database(t)},
	}
	for _, is := range engines {
		db, err := sql.Open(databases[is].driver, databases[is].dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		for _, taken := range engines {
			if taken == is {
				continue
			}
			t.Run(is.String()+" taken for "+taken.String(), func(t *testing.T) {
				connector, err := fence.Wrap(db.Driver(), taken).(driver.DriverContext).OpenConnector(databases[is].dsn)
				if err != nil {
					t.Fatal(err)
				}
				fenced := sql.OpenDB(connector)
				t.Cleanup(func() { fenced.Close() })
				token := guard.Token{Resource: "r", Epoch: 1}
				store := stores[taken](db)
				for what, do := range map[string]func(ctx context.Context) error{
					"Migrate":    func(ctx context.Context) error { return guard.Migrate(ctx, db, taken) },
					"CheckSetup": func(ctx context.Context) error { return guard.CheckSetup(ctx, db, taken) },
					"HighWater": func(ctx context.Context) error {
						_, err := guard.NewFence(db, taken).HighWater(ctx, "r")
						return err
					},
					"Check":   func(ctx context.Context) error { return guard.NewFence(db, taken).Check(ctx, token) },
					"Advance": func(ctx context.Context) error { return guard.NewFence(db, taken).Advance(ctx, token) },
					"AdvanceWithin on a connection": func(ctx context.Context) error {
						conn, err := db.Conn(ctx)
						if err != nil {
							return err
						}
						defer conn.Close()
						return guard.NewFence(conn, taken).AdvanceWithin(ctx, token, 0)
					},
					"Advance in a transaction": func(ctx context.Context) error {
						tx, err := db.BeginTx(ctx, nil)
						if err != nil {
							return err
						}
						defer tx.Rollback()
						return guard.NewFence(tx, taken).Advance(ctx, token)
					},
					"Inspect": func(ctx context.Context) error {
						_, err := store.Inspect(ctx, "r")
						return err
					},
					"Acquire": func(ctx context.Context) error {
						_, err := store.Acquire(ctx, lease.AcquireRequest{Resource: "r", Owner: "a", TTL: time.Minute})
						return err
					},
					"a guarded write": func(ctx context.Context) error {
						_, err := fenced.ExecContext(guard.With(ctx, token), "DELETE FROM jobs")
						return err
					},
				} {
					err := do(t.Context())
					if err != nil && strings.Contains(err.Error(), "may still") {
						t.Errorf("%s: error %v speaks of what nobody has done", what, err)
					}
					var setup *guard.SetupError
					if !errors.As(err, &setup) || setup.Err == nil || !strings.Contains(setup.Problem, taken.String()) {
						t.Errorf("%s: got error %v, want a SetupError that names the engine and unwraps to the server's", what, err)
					}
				}
			})
		}
	}
}
