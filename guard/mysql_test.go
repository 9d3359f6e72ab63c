package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"
	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// account creates an account without privileges, and returns its quoted name and
// the data source name that it connects to the database with.
func account(t *testing.T, d database) (name, dsn string) {
	t.Helper()
	admin := d.open(t)
	config, err := mysql.ParseDSN(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	// Accounts belong to the whole server: one of this test's own.
	user := "app" + config.DBName[len(config.DBName)-12:]
	name = fmt.Sprintf("`%s`@`127.0.0.1`", user)
	mustExec(t, admin, "CREATE USER "+name)
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP USER "+name); err != nil {
			t.Error(err)
		}
	})
	// Without any right on the database it could not even enter it.
	mustExec(t, admin, "CREATE TABLE d (a INT)")
	mustExec(t, admin, "GRANT SELECT ON d TO "+name)
	config.User, config.Passwd = user, ""
	return name, config.FormatDSN()
}

// What the application's account gets is enough for every operation, and for nothing
// else: the tables stay closed.
func TestAnAccountOfMySQLWithoutPrivilegesIsToldTheGrants(t *testing.T) { // CASES D33
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := database{sqlgen.MySQL, "mysql", dsn}
		admin := d.open(t)
		name, appDSN := account(t, d)
		app := database{sqlgen.MySQL, "mysql", appDSN}.open(t)
		token := guard.Token{Resource: "job", Epoch: 1}

		wantSetup := func(what string, err error, words ...string) {
			t.Helper()
			if !errors.Is(err, guard.ErrSetup) {
				t.Errorf("%s: expected a set-up error, saw %v", what, err)
				return
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: expected an error with %q, saw %v", what, word, err)
				}
			}
		}
		wantSetup("Migrate without privileges", guard.Migrate(t.Context(), app, d.engine), "guard.Migrate")
		if err := guard.Migrate(t.Context(), admin, d.engine); err != nil {
			t.Fatal(err)
		}
		mustAdvance(t, guard.NewFence(admin, d.engine), token)

		f := guard.NewFence(app, d.engine)
		_, markErr := f.HighWater(t.Context(), "job")
		for what, err := range map[string]error{
			"CheckSetup": guard.CheckSetup(t.Context(), app, d.engine),
			"Check":      f.Check(t.Context(), token),
			"Advance":    f.Advance(t.Context(), guard.Token{Resource: "job", Epoch: 2}),
			"HighWater":  markErr,
		} {
			wantSetup(what, err, "GRANT SELECT ON sqlfence_guard TO", "GRANT EXECUTE ON PROCEDURE sqlfence_advance TO")
		}
		for _, grant := range strings.Split(strings.TrimSpace(sqlgen.Grants(d.engine, strings.ReplaceAll(name, "`", ""))), "\n") {
			mustExec(t, admin, strings.TrimSuffix(grant, ";"))
		}
		app = database{sqlgen.MySQL, "mysql", appDSN}.open(t) // privileges are looked at when a session begins
		f = guard.NewFence(app, d.engine)
		if err := guard.CheckSetup(t.Context(), app, d.engine); err != nil {
			t.Errorf("with all grants: expected nil, saw %v", err)
		}
		if err := guard.Migrate(t.Context(), app, d.engine); err != nil {
			t.Errorf("where there is nothing to do: expected nil, saw %v", err)
		}
		if err := f.Check(t.Context(), token); err != nil {
			t.Errorf("check: %v", err)
		}
		mustAdvance(t, f, guard.Token{Resource: "job", Epoch: 2})
		for _, text := range []string{
			"SELECT * FROM sqlfence_fences", "UPDATE sqlfence_fences SET high_water = 9", "DELETE FROM sqlfence_leases",
			"UPDATE sqlfence_guard SET high_water = 9", "SELECT * FROM sqlfence_lease", "DELETE FROM sqlfence_guard",
			"CALL sqlfence_release_one('a', 'b', 1, 1, 0, 2, TRUE, @a, @b, @c, @d)", "DROP VIEW sqlfence_guard",
		} {
			var refused *mysql.MySQLError
			if _, err := app.ExecContext(t.Context(), text); !errors.As(err, &refused) || refused.Number != 1142 && refused.Number != 1370 {
				t.Errorf("%s: expected that it is denied, saw %v", text, err)
			}
		}
	})
}

func TestAConnectionInNoDatabaseIsASetupError(t *testing.T) {
	for _, server := range testserver.MySQL(t) {
		server.Database(t)
		db := database{sqlgen.MySQL, "mysql", server.DSN}.open(t)
		for what, err := range map[string]error{
			"Migrate":    guard.Migrate(t.Context(), db, sqlgen.MySQL),
			"CheckSetup": guard.CheckSetup(t.Context(), db, sqlgen.MySQL),
		} {
			if !errors.Is(err, guard.ErrSetup) || !strings.Contains(err.Error(), "no database") {
				t.Errorf("%s: expected a set-up error about the database, saw %v", what, err)
			}
		}
	}
}

// The schema works for every sql_mode, whoever creates it and whoever calls it, and
// the session that created it keeps its own.
func TestTheSQLModeOfASessionDoesNotMatter(t *testing.T) {
	for _, mode := range []string{
		"''", "'ORACLE'", "'ANSI,NO_BACKSLASH_ESCAPES'", "'TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE'",
	} {
		t.Run(mode, func(t *testing.T) {
			server := testserver.MySQL(t)[0]
			if mode == "'ORACLE'" && server.Engine != "MariaDB" {
				mode = "'ANSI'" // the other has no such thing
			}
			config, err := mysql.ParseDSN(server.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			config.Params = map[string]string{"sql_mode": mode}
			d := database{sqlgen.MySQL, "mysql", config.FormatDSN()}
			db := d.open(t)
			db.SetMaxOpenConns(1)
			var before, after string
			if err := db.QueryRow("SELECT @@SESSION.sql_mode").Scan(&before); err != nil {
				t.Fatal(err)
			}
			if err := guard.Migrate(t.Context(), db, d.engine); err != nil {
				t.Fatal(err)
			}
			if err := db.QueryRow("SELECT @@SESSION.sql_mode").Scan(&after); err != nil || after != before {
				t.Errorf("sql_mode is %q afterwards (%v), expected %q", after, err, before)
			}
			d.mustBeReady(t)
		})
	}
}

// A TEMPORARY table takes the place of a table or view of its name. The fence is
// then shut, and never open.
func TestATemporaryTableCannotStandInForTheFenceOfMySQL(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := database{sqlgen.MySQL, "mysql", dsn}
		db := d.migrated(t)
		token := guard.Token{Resource: "job", Epoch: 5, Grant: 1}
		mustAdvance(t, guard.NewFence(db, d.engine), token)
		stale := guard.Token{Resource: "job", Epoch: 4, Grant: 1}
		for what, create := range map[string][]string{
			"the view": {
				"CREATE TEMPORARY TABLE sqlfence_guard AS SELECT * FROM sqlfence_guard",
				"UPDATE sqlfence_guard SET high_water = 4",
			},
			"the table": {
				"CREATE TEMPORARY TABLE sqlfence_fences (resource VARBINARY(255) PRIMARY KEY, high_water BIGINT, grant_id BIGINT, advanced BOOLEAN DEFAULT FALSE)",
				"INSERT INTO sqlfence_fences VALUES ('job', 4, 1, FALSE)",
			},
		} {
			t.Run(what, func(t *testing.T) {
				conn, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				for _, text := range create {
					mustExec(t, conn, text)
				}
				defer mustExec(t, conn, "DROP TEMPORARY TABLE IF EXISTS sqlfence_guard, sqlfence_fences")
				f := guard.NewFence(conn, d.engine)
				if err := f.Check(t.Context(), stale); !errors.Is(err, guard.ErrFenced) && !errors.Is(err, guard.ErrUnregistered) {
					t.Errorf("a stale token: expected a refusal, saw %v", err)
				}
				if err := f.Check(t.Context(), token); what == "the table" && err != nil {
					t.Errorf("the valid token: expected nil, as the view's tables are the real ones, saw %v", err)
				}
				// An Advance either reaches the real table or says that it cannot.
				err = f.Advance(t.Context(), guard.Token{Resource: what, Epoch: 1})
				mark, markErr := guard.NewFence(db, d.engine).HighWater(t.Context(), what)
				if markErr != nil || (err == nil) != (mark == 1) {
					t.Errorf("advance: %v, and the mark is %d (%v)", err, mark, markErr)
				}
				if err != nil && !errors.Is(err, guard.ErrSetup) {
					t.Errorf("advance: expected a set-up error, saw %v", err)
				}
			})
		}
	})
}

// What the schema needs is not in every server that speaks the protocol.
func TestMigrateNamesAServerThatIsTooOld(t *testing.T) {
	for version, oldest := range map[string]string{
		"5.7.44-log": "MySQL 8.0.29", "8.0.28": "MySQL 8.0.29", "8.0.28-0ubuntu0.20.04.3": "MySQL 8.0.29", "8": "MySQL 8.0.29",
		"10.5.27-MariaDB": "MariaDB 10.6", "5.5.5-10.3.39-MariaDB-0+deb10u2": "MariaDB 10.6",
		"8.0.29": "", "8.4.10": "", "9.7.4": "", "10.6.23-MariaDB-ubu2004": "", "5.5.5-11.8.9-MariaDB": "", "of the house": "",
	} {
		db, mock, err := sqlmock.New()
		if err != nil {
			t.Fatal(err)
		}
		beyond := errors.New("it goes on")
		mock.ExpectQuery("version").WillReturnError(&mysql.MySQLError{Number: 1146, Message: "Table 'd.sqlfence_schema' doesn't exist"})
		mock.ExpectQuery("VERSION").WillReturnRows(sqlmock.NewRows([]string{"name", "version"}).AddRow("sqlfence.migrate.x", version))
		if oldest == "" {
			mock.ExpectQuery("GET_LOCK").WillReturnError(beyond)
		}
		mock.ExpectClose()
		err = guard.Migrate(t.Context(), db, sqlgen.MySQL)
		switch {
		case oldest == "" && !errors.Is(err, beyond):
			t.Errorf("%s: error %v, want that it is taken", version, err)
		case oldest != "" && (!errors.Is(err, guard.ErrSetup) || !strings.Contains(err.Error(), version) || !strings.Contains(err.Error(), oldest)):
			t.Errorf("%s: error %v, want ErrSetup that names it and %s", version, err, oldest)
		}
		db.Close()
	}
}
