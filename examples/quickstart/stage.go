package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/sqlfence/sqlfence/driver/postgres" // registers "sqlfence-pgx" beside pgx's own "pgx"
	_ "github.com/sqlfence/sqlfence/driver/sqlite"   // registers "sqlfence-sqlite" beside modernc's own "sqlite"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// stage is the database that the story plays on, with the table of jobs.
type stage struct {
	description  string // for the audience
	engine       sqlgen.Engine
	dsn          string
	bareDriver   string
	fencedDriver string
	resource     string // what the lease is on
	table        string
	update       string  // the application's write; its one parameter is the result
	db           *sql.DB // the bare driver, for looking at the rows
	created      bool    // whether the table exists
	dir          string  // the temporary directory, or ""
}

// newStage prepares SQLite in a temporary directory, or the PostgreSQL
// database at dsn.
func newStage(ctx context.Context, dsn string) (*stage, error) {
	s := &stage{
		description:  "SQLite, in a temporary directory",
		engine:       sqlgen.SQLite,
		bareDriver:   "sqlite",
		fencedDriver: "sqlfence-sqlite",
		resource:     "job-42",
		table:        "jobs",
		update:       `UPDATE jobs SET result = ? WHERE id = 42`,
	}
	switch {
	case dsn == "":
		dir, err := os.MkdirTemp("", "sqlfence-quickstart-")
		if err != nil {
			return nil, err
		}
		s.dir = dir
		s.dsn = "file:" + filepath.Join(dir, "jobs.db") + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"):
		// Names of their own: the database is somebody's, and may be running
		// this program twice.
		suffix := strings.ToLower(rand.Text()[:8])
		s.description = "PostgreSQL"
		s.engine = sqlgen.PostgreSQL
		s.dsn = dsn
		s.bareDriver = "pgx"
		s.fencedDriver = "sqlfence-pgx"
		s.resource = "job-42-" + suffix
		s.table = "quickstart_jobs_" + suffix
		s.update = `UPDATE ` + s.table + ` SET result = $1 WHERE id = 42`
	default:
		return nil, errors.New("-dsn must be a PostgreSQL URL, such as postgres://user@localhost:5432/database")
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// open connects, and creates what the fence and the story need.
func (s *stage) open(ctx context.Context) error {
	db, err := sql.Open(s.bareDriver, s.dsn)
	if err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	s.db = db
	ping, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := db.PingContext(ping); err != nil {
		return fmt.Errorf("cannot reach the database: %w", err)
	}
	if err := guard.Migrate(ctx, db, s.engine); err != nil {
		return fmt.Errorf("cannot create the tables of the fence: %w", err)
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE `+s.table+` (id integer PRIMARY KEY, result text NOT NULL)`)
	s.created = err == nil
	return err
}

// reset makes the job as it is before an act.
func (s *stage) reset(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, `DELETE FROM `+s.table); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, `INSERT INTO `+s.table+` (id, result) VALUES (42, 'not done')`)
	return err
}

// newWorker opens a handle and a lease manager, as a process of its own would.
func (s *stage) newWorker(name, driverName string) (*worker, error) {
	db, err := sql.Open(driverName, s.dsn) // the one line that an existing program changes
	if err != nil {
		return nil, err
	}
	var store lease.Store
	if s.engine == sqlgen.SQLite {
		store = leasesqlite.New(db)
	} else {
		store = leasepg.New(db)
	}
	leases, err := lease.NewManager(store, lease.TTL(ttl), lease.Owner(name))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &worker{name: name, db: db, leases: leases}, nil
}

// expectResult shows the job's row, read by the bare driver, and returns an
// error if its result is not want.
func (s *stage) expectResult(ctx context.Context, out io.Writer, want string) error {
	var got string
	if err := s.db.QueryRowContext(ctx, `SELECT result FROM `+s.table+` WHERE id = 42`).Scan(&got); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	say(out, "", "job 42 in the database: %q", got)
	if got != want {
		return fmt.Errorf("job 42 was expected to be %q, but is %q", want, got)
	}
	return nil
}

// close removes the story's own table or files. What Migrate created in a
// PostgreSQL database stays: others may be using it.
func (s *stage) close() error {
	var errs []error
	if s.created {
		// Also after an interrupt, which has ended the caller's context.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := s.db.ExecContext(ctx, `DROP TABLE `+s.table)
		errs = append(errs, err)
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
