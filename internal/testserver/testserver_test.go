package testserver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// The test binary doubles as the programs that tests here start.
const envPlay = "SQLFENCE_TESTSERVER_PLAY"

func TestMain(m *testing.M) {
	switch os.Getenv(envPlay) {
	case "docker":
		playDocker(os.Args[1:])
	case "victim":
		playVictim(os.Args[1])
	default:
		goleak.VerifyTestMain(m)
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestEachPostgreSQLGivesAnEmptyDatabase(t *testing.T) {
	EachPostgreSQL(t, func(t *testing.T, dsn string) {
		conn := connect(t, dsn)
		defer conn.Close(context.Background())
		var tables int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = 'public'::regnamespace").Scan(&tables); err != nil {
			t.Fatal(err)
		}
		if tables != 0 {
			t.Errorf("a fresh database has %d tables, expected none", tables)
		}
		var superuser string
		if err := conn.QueryRow(t.Context(), "SHOW is_superuser").Scan(&superuser); err != nil {
			t.Fatal(err)
		}
		if superuser != "on" {
			t.Errorf("is_superuser is %q, expected on", superuser)
		}
	})
}

func TestDatabaseIsDroppedWithSessionsAndPreparedTransactionsInIt(t *testing.T) {
	for _, server := range PostgreSQL(t) {
		var dsn string
		var left *pgx.Conn
		t.Run("PostgreSQL_"+server.Version, func(t *testing.T) {
			dsn = server.Database(t)
			left = connect(t, dsn)
			for _, sql := range []string{"CREATE TABLE t (a int)", "BEGIN", "INSERT INTO t VALUES (1)", "PREPARE TRANSACTION 'it''s left'"} {
				if _, err := left.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
		})
		left.Close(t.Context())
		if _, err := pgx.Connect(t.Context(), dsn); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("connecting after the test: %v, expected that the database does not exist", err)
		}
	}
}

func TestNamedServersThatDoNotAnswerAreAnError(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]string{
		"nobody listens": "postgres://postgres@" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + "/postgres",
		"only commas":    " , ",
	} {
		t.Run(name, func(t *testing.T) {
			servers, err := namedPostgreSQL(t.Context(), list)
			if err == nil || !strings.Contains(err.Error(), EnvPostgreSQL) {
				t.Errorf("got %v and error %v, expected an error that names %s", servers, err, EnvPostgreSQL)
			}
		})
	}
}

func TestMajor(t *testing.T) {
	for version, want := range map[string]int{"15.18": 15, "18beta1": 18, "13": 13, "": 0, "x": 0} {
		if got := (Server{Version: version}).Major(); got != want {
			t.Errorf("Major of %q is %d, expected %d", version, got, want)
		}
	}
}

// The message is what a newcomer without any server sees.
func TestWithoutAnySourceOtherEnginesSayWhatToInstallToo(t *testing.T) {
	refusal := errors.New("not here\nat all")
	_, err := startFirst(t.Context(), []source{
		{"one place", func(context.Context) (*Instance, error) { return nil, refusal }},
		{"another", func(context.Context) (*Instance, error) { return nil, refusal }},
	}, "no server.\nInstall one.")
	if want := "no server.\nInstall one.\nTried:\n  - one place: not here\n    at all\n  - another: not here\n    at all"; err == nil || err.Error() != want {
		t.Errorf("error is %v, expected %s", err, want)
	}
}

func TestDatabaseNamesAreValidAndDistinct(t *testing.T) {
	long := strings.Repeat("TestÄ/Long name ", 20)
	a, b := databaseName(long), databaseName(long)
	if a == b {
		t.Errorf("two databases of one test have the same name %s", a)
	}
	if len(a) > 63 {
		t.Errorf("name has %d bytes, PostgreSQL takes 63: %s", len(a), a)
	}
	if strings.Trim(a, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		t.Errorf("name would need quotes: %s", a)
	}
}

// The message is what a newcomer without any server sees.
func TestWithoutAnySourceTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := postgreSQLWanted{name: "a PostgreSQL of the future", oldest: 99, newest: 99}.start(t.Context())
	if err == nil {
		t.Fatal("a server of version 99 was found")
	}
	for _, want := range []string{
		"no server for a PostgreSQL of the future (version 99)",
		"apt-get install postgresql", "brew install", "npm", "Docker or Podman", EnvPostgreSQL,
		"- programs on this machine: none", "- npm package: there is none", "- container: docker is not installed", "- Debian package: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestSQLiteFileIsNotThereYet(t *testing.T) {
	file := SQLiteFile(t)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of %s: %v, expected that it does not exist", file, err)
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		t.Error(err)
	}
}

func TestReportCountsEachTestOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report")
	t.Setenv(EnvReport, file)
	record(t, "SQLite", "3.1")
	record(t, "SQLite", "3.1")
	t.Run("sub", func(t *testing.T) { record(t, "SQLite", "3.1") })
	record(t, "PostgreSQL", "18.4")
	record(t, "PostgreSQL", "9.6")

	got, err := ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []Use{{"PostgreSQL", "9.6", 1, 1}, {"PostgreSQL", "18.4", 1, 1}, {"SQLite", "3.1", 1, 2}}
	if !slices.Equal(got, want) {
		t.Errorf("report is %v, expected %v", got, want)
	}

	run := Run{Servers: []RunServer{{Engine: "SQLite", Version: "3.1"}, {Engine: "PostgreSQL", Version: "15.18"}}}
	unused := run.Unused(got)
	if len(unused) != 1 || unused[0].Version != "15.18" {
		t.Errorf("unused servers are %v, expected PostgreSQL 15.18 alone", unused)
	}
}

func TestReportThatIsBrokenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report")
	if uses, err := ReadReport(file); err != nil || uses != nil {
		t.Errorf("a report that nobody wrote: %v, %v; expected none and no error", uses, err)
	}
	if err := os.WriteFile(file, []byte("half a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if uses, err := ReadReport(file); err == nil {
		t.Errorf("a broken report reads as %v, expected an error", uses)
	}
}

func TestRunNamesServersInTheEnvironment(t *testing.T) {
	run := Run{Servers: []RunServer{
		{Engine: "PostgreSQL", env: "A", dsn: "one"},
		{Engine: "SQLite"},
		{Engine: "PostgreSQL", env: "A", dsn: "two"},
		{Engine: "Other", env: "B", dsn: "three"},
	}}
	if got, want := run.Env(), []string{"A=one,two", "B=three"}; !slices.Equal(got, want) {
		t.Errorf("environment is %q, expected %q", got, want)
	}
}

// eventually asks until the answer is yes; for what another process does, which
// gives no signal.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not seen within 30 s: %s", what)
		}
	}
}
