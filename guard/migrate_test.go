package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// A test binary that finds these in its environment migrates and ends.
const (
	envMigrateDSN    = "SQLFENCE_TEST_MIGRATE_DSN"
	envMigrateDriver = "SQLFENCE_TEST_MIGRATE_DRIVER"
	envMigrateEngine = "SQLFENCE_TEST_MIGRATE_ENGINE"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(envMigrateDSN); dsn != "" {
		if err := migrateAsAProcess(os.Getenv(envMigrateDriver), dsn, os.Getenv(envMigrateEngine)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.Main(m)
}

func migrateAsAProcess(driver, dsn, engine string) error {
	e, err := strconv.ParseUint(engine, 10, 8)
	if err != nil {
		return err
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return guard.Migrate(context.Background(), db, sqlgen.Engine(e))
}

func TestMigrateByTenAtOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		t.Run("goroutines", func(t *testing.T) {
			var running sync.WaitGroup
			start := make(chan struct{})
			for i := range 10 {
				db := d.open(t)
				running.Go(func() {
					<-start
					if err := guard.Migrate(context.WithoutCancel(t.Context()), db, d.engine); err != nil {
						t.Errorf("goroutine %d: %v", i, err)
					}
				})
			}
			close(start)
			running.Wait()
			d.mustBeReady(t)
		})
	})
	eachDatabase(t, func(t *testing.T, d database) {
		t.Run("processes", func(t *testing.T) {
			var running sync.WaitGroup
			for i := range 10 {
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), envMigrateDSN+"="+d.dsn, envMigrateDriver+"="+d.driver,
					envMigrateEngine+"="+strconv.Itoa(int(d.engine)))
				cmd.Stderr = os.Stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				running.Go(func() {
					if err := cmd.Wait(); err != nil {
						t.Errorf("process %d: %v", i, err)
					}
				})
			}
			running.Wait()
			d.mustBeReady(t)
		})
	})
}

// mustBeReady fails the test unless the fence works.
func (d database) mustBeReady(t *testing.T) {
	t.Helper()
	db := d.open(t)
	if err := guard.CheckSetup(t.Context(), db, d.engine); err != nil {
		t.Error(err)
	}
	f := guard.NewFence(db, d.engine)
	token := guard.Token{Resource: "job", Epoch: 1}
	mustAdvance(t, f, token)
	if err := f.Check(t.Context(), token); err != nil {
		t.Error(err)
	}
}

func TestMigrateAgainChangesNothing(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		token := guard.Token{Resource: "job", Epoch: 7}
		mustAdvance(t, guard.NewFence(db, d.engine), token)
		if err := guard.Migrate(t.Context(), db, d.engine); err != nil {
			t.Error(err)
		}
		// The text itself, as another tool would run it again.
		for _, statement := range sqlgen.SchemaStatements(d.engine) {
			mustExec(t, db, statement)
		}
		if err := guard.NewFence(db, d.engine).Check(t.Context(), token); err != nil {
			t.Errorf("expected the token still to pass, saw %v", err)
		}
	})
}

func TestAMissingSchemaIsASetupError(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.open(t)
		f := guard.NewFence(db, d.engine)
		token := guard.Token{Resource: "job", Epoch: 1}
		_, markErr := f.HighWater(t.Context(), "job")
		for i, err := range []error{
			guard.CheckSetup(t.Context(), db, d.engine), f.Check(t.Context(), token), f.Advance(t.Context(), token), markErr,
		} {
			if !errors.Is(err, guard.ErrSetup) || !strings.Contains(err.Error(), "guard.Migrate") {
				t.Errorf("call %d: expected a set-up error that names guard.Migrate, saw %v", i, err)
			}
		}
	})
}

func TestASchemaOfANewerVersionIsLeftAlone(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		if d.engine != sqlgen.PostgreSQL {
			mustExec(t, db, "UPDATE sqlfence_meta SET version = 2")
		} else {
			mustExec(t, db, "CREATE OR REPLACE FUNCTION sqlfence.schema_version() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2'")
		}
		for name, err := range map[string]error{
			"Migrate":    guard.Migrate(t.Context(), db, d.engine),
			"CheckSetup": guard.CheckSetup(t.Context(), db, d.engine),
		} {
			if !errors.Is(err, guard.ErrSetup) || !strings.Contains(err.Error(), "version 2") {
				t.Errorf("%s: expected a set-up error that names version 2, saw %v", name, err)
			}
		}
	})
}

func TestMigrateWaitsForOtherWritersUntilItsContextEnds(t *testing.T) {
	wal := "?_pragma=journal_mode(WAL)"
	for name, pragmas := range map[string]struct{ writer, db string }{
		"a write-ahead log": {wal, wal},
		// A connection is refused as long as it cannot make it one, whatever its
		// busy_timeout.
		"a database that is to become one": {"", wal + "&_pragma=busy_timeout(1)"},
	} {
		t.Run(name, func(t *testing.T) {
			file := "file:" + testserver.SQLiteFile(t)
			writer, err := database{sqlgen.SQLite, "sqlite", file + pragmas.writer}.open(t).Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer writer.Close()
			mustExec(t, writer, "BEGIN IMMEDIATE")
			d := database{sqlgen.SQLite, "sqlite", file + pragmas.db}
			db := d.open(t)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := guard.Migrate(ctx, db, d.engine); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("expected the context's error, saw %v", err)
			}
			mustExec(t, writer, "ROLLBACK")
			if err := guard.CheckSetup(t.Context(), db, d.engine); !errors.Is(err, guard.ErrSetup) {
				t.Errorf("expected nothing to have been created, saw %v", err)
			}
			if err := guard.Migrate(t.Context(), db, d.engine); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMigrateUnderAStricterDefaultIsolation(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := database{sqlgen.PostgreSQL, "pgx", dsn}
		var name string
		db := d.open(t)
		if err := db.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, `ALTER DATABASE "`+name+`" SET default_transaction_isolation = 'serializable'`)
		var running sync.WaitGroup
		for i := range 5 {
			db := d.open(t)
			running.Go(func() {
				if err := guard.Migrate(context.WithoutCancel(t.Context()), db, d.engine); err != nil {
					t.Errorf("goroutine %d: %v", i, err)
				}
			})
		}
		running.Wait()
		d.mustBeReady(t)
	})
}

func TestARoleWithoutPrivilegesIsToldTheGrants(t *testing.T) { // CASES D33
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := database{sqlgen.PostgreSQL, "pgx", dsn}
		admin := d.open(t)
		var role string // roles belong to the whole server: one of this test's own
		if err := admin.QueryRowContext(t.Context(), `SELECT 'Role "of" ' || right(current_database(), 12)`).Scan(&role); err != nil {
			t.Fatal(err)
		}
		quoted := `"` + strings.ReplaceAll(role, `"`, `""`) + `"`
		mustExec(t, admin, "CREATE ROLE "+quoted)
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			for _, q := range []string{"DROP OWNED BY " + quoted, "DROP ROLE " + quoted} {
				if _, err := admin.ExecContext(ctx, q); err != nil {
					t.Error(err)
				}
			}
		})

		// Whole pools act as the role: what a program is that connects as it.
		app := database{d.engine, d.driver, d.dsn + sep(d.dsn) + "options=" + "-crole%3D" + strings.NewReplacer(" ", `%5C%20`, `"`, "%22").Replace(role)}.open(t)
		if err := guard.Migrate(t.Context(), app, d.engine); !errors.Is(err, guard.ErrSetup) {
			t.Errorf("without CREATE on the database: expected a set-up error, saw %v", err)
		}
		if err := guard.Migrate(t.Context(), admin, d.engine); err != nil {
			t.Fatal(err)
		}
		if err := guard.Migrate(t.Context(), app, d.engine); err != nil {
			t.Errorf("where there is nothing to do: expected nil, saw %v", err)
		}

		f := guard.NewFence(app, d.engine)
		token := guard.Token{Resource: "job", Epoch: 1}
		mustAdvance(t, guard.NewFence(admin, d.engine), token)
		if err := f.Check(t.Context(), token); !errors.Is(err, guard.ErrSetup) {
			t.Errorf("check: expected a set-up error, saw %v", err)
		}
		grants := []string{
			"GRANT USAGE ON SCHEMA sqlfence TO " + quoted,
			"GRANT EXECUTE ON FUNCTION sqlfence.pass(text, bigint, bigint) TO " + quoted,
			"GRANT INSERT ON sqlfence.nothing TO " + quoted,
		}
		for i, grant := range grants {
			err := guard.CheckSetup(t.Context(), app, d.engine)
			var setup *guard.SetupError
			if !errors.As(err, &setup) {
				t.Fatalf("with %d grants: expected a set-up error, saw %v", i, err)
			}
			if want := strings.Join(grants[i:], "; "); setup.Remedy != want {
				t.Errorf("with %d grants: expected the remedy %s, saw %s", i, want, setup.Remedy)
			}
			mustExec(t, admin, grant)
		}
		if err := guard.CheckSetup(t.Context(), app, d.engine); err != nil {
			t.Errorf("with all grants: expected nil, saw %v", err)
		}
		if err := f.Check(t.Context(), token); err != nil {
			t.Errorf("with all grants: expected the token to pass, saw %v", err)
		}
	})
}

// sep is what comes before another parameter of a URL.
func sep(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}
