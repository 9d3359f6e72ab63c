package testserver

import (
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // the SQLite that is tested
)

// sqliteVersion asks the SQLite linked into this binary.
var sqliteVersion = sync.OnceValues(func() (version string, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return "", err
	}
	defer db.Close()
	err = db.QueryRow("SELECT sqlite_version()").Scan(&version)
	return version, err
})

// SQLiteFile returns the path of a database file that is removed when the test ends;
// it is not there yet, so it has SQLite's defaults (no WAL). The path can be part of a
// URI as it is: t.TempDir may hold a '#', which would end the path there.
func SQLiteFile(t testing.TB) string {
	t.Helper()
	version, err := sqliteVersion()
	if err != nil {
		t.Fatalf("testserver: SQLite: %v", err)
	}
	record(t, "SQLite", version)
	dir, err := os.MkdirTemp("", "sqlfence-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "test.sqlite")
}
