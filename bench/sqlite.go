package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"

	_ "github.com/sqlfence/sqlfence/driver/sqlite" // registers "sqlfence-sqlite" beside modernc's own "sqlite"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

var sqlite = dialect{
	engine: sqlgen.SQLite,
	create: []string{
		`CREATE TABLE sqlfence_bench_parent (id INTEGER PRIMARY KEY)`,
		`CREATE TABLE sqlfence_bench_update (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)`,
		`CREATE TABLE sqlfence_bench_insert (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, n INTEGER NOT NULL)`,
		`CREATE TABLE sqlfence_bench_insert_fk (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL REFERENCES sqlfence_bench_parent, n INTEGER NOT NULL)`,
	},
	reset: []string{
		`DELETE FROM sqlfence_bench_update`, `DELETE FROM sqlfence_bench_insert`, `DELETE FROM sqlfence_bench_insert_fk`,
	},
	drop: []string{
		`DROP TABLE IF EXISTS sqlfence_bench_update`, `DROP TABLE IF EXISTS sqlfence_bench_insert`,
		`DROP TABLE IF EXISTS sqlfence_bench_insert_fk`, `DROP TABLE IF EXISTS sqlfence_bench_parent`,
	},
	row:        `INSERT INTO sqlfence_bench_update VALUES (%d, 0)`,
	update:     `UPDATE sqlfence_bench_update SET n = n + ? WHERE id = ?`,
	insert:     `INSERT INTO sqlfence_bench_insert (parent, n) VALUES (?, ?)`,
	foreignKey: `INSERT INTO sqlfence_bench_insert_fk (parent, n) VALUES (?, ?)`,
	lock:       `SELECT 1 FROM main.sqlfence_fences WHERE resource = ? AND high_water = ? AND grant_id = ?`,
}

// openSQLite makes a database in a temporary folder.
func openSQLite(ctx context.Context, o options) (t *target, err error) {
	t = &target{dialect: sqlite}
	defer func() {
		if err != nil {
			_ = t.close()
		}
	}()
	dir, err := os.MkdirTemp("", "sqlfence-bench-")
	if err != nil {
		return nil, err
	}
	t.cleanup = append(t.cleanup, func() error { return os.RemoveAll(dir) })
	// A minute of patience: writers queue by chance, and one that gives up
	// would end the run.
	dsn := "file:" + filepath.Join(dir, "bench.db") +
		"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=foreign_keys(1)"
	for _, h := range []struct {
		driver, more string
		db           **sql.DB
	}{{"sqlite", "", &t.bare}, {"sqlfence-sqlite", "", &t.fenced}, {"sqlite", "&_txlock=immediate", &t.locking}} {
		if *h.db, err = sql.Open(h.driver, dsn+h.more); err != nil {
			return nil, err
		}
		t.cleanup = append(t.cleanup, (*h.db).Close)
	}
	var version string
	if err = t.bare.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
		return nil, err
	}
	t.name = "SQLite " + version
	t.settings = "modernc.org/sqlite, all clients in one process; journal_mode=WAL, synchronous=OFF, foreign_keys=ON"
	return t, t.prepare(ctx, leasesqlite.New(t.fenced), o)
}
