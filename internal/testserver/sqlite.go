package testserver

import (
	"database/sql"
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

// SQLiteFile returns the path of a database file in t.TempDir(); it is not there
// yet, so it has SQLite's defaults (no WAL).
func SQLiteFile(t testing.TB) string {
	t.Helper()
	version, err := sqliteVersion()
	if err != nil {
		t.Fatalf("testserver: SQLite: %v", err)
	}
	record(t, "SQLite", version)
	return filepath.Join(t.TempDir(), "test.sqlite")
}
