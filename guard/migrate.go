package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// Migrate brings the schema of sqlfence in the database to
// [sqlgen.SchemaVersion]. It is idempotent, and safe when many processes start
// at once; where the version is right already it only reads. Those who keep
// their schema with another tool run the text of [sqlgen.Schema] instead.
//
// It returns a *[SetupError] if the database has a newer version, or if the
// role may not create the schema. On SQLite it waits for other writers until
// ctx ends. On MySQL and MariaDB the schema becomes part of the database that
// db's connections are in. A database of another engine is a *[SetupError] too,
// and an engine that package sqlgen does not have (0, say) is [ErrInvalidInput].
func Migrate(ctx context.Context, db *sql.DB, engine sqlgen.Engine) error {
	if err := known(engine); err != nil {
		return err
	}
	ctx = Without(ctx)
	version, err := schemaVersion(ctx, db, engine)
	if err != nil && !isBusy(err) {
		return err
	}
	if err == nil && version >= sqlgen.SchemaVersion {
		return judgeVersion(version)
	}
	switch engine {
	case sqlgen.SQLite:
		return migrateSQLite(ctx, db)
	case sqlgen.MySQL:
		return migrateMySQL(ctx, db)
	}
	return migratePostgreSQL(ctx, db)
}

// migrationLock is the key of the advisory lock under which schemas change:
// "sqlfence" as a number. The turnstiles use the form with two keys, which is
// a space of its own.
const migrationLock = 0x73716c66656e6365

func migratePostgreSQL(ctx context.Context, db *sql.DB) error {
	// READ COMMITTED, whatever the default: the version must be read after
	// the lock was had.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, "SELECT pg_catalog.pg_advisory_xact_lock($1::pg_catalog.int8)", int64(migrationLock)); err != nil {
		return err
	}
	if err := apply(ctx, tx, sqlgen.PostgreSQL); err != nil {
		return err
	}
	return tx.Commit()
}

func migrateSQLite(ctx context.Context, db *sql.DB) error {
	for {
		err := migrateOnce(ctx, db)
		if err == nil || !isBusy(err) {
			return err
		}
		timer := time.NewTimer(5 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-timer.C:
		}
	}
}

func migrateOnce(ctx context.Context, db *sql.DB) error {
	// That alone may be busy: where the connection is to make the file one with a
	// write-ahead log, SQLite waits for nobody.
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// database/sql begins a deferred transaction, which fails for good if
	// somebody else writes between its first read and its first write.
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err = apply(ctx, conn, sqlgen.SQLite)
	calm := context.WithoutCancel(ctx)
	if err == nil {
		_, err = conn.ExecContext(calm, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(calm, "ROLLBACK") // fails where SQLite has rolled back already
	}
	return err
}

// apply runs the script, in the caller's transaction, unless it has been run
// meanwhile.
func apply(ctx context.Context, q Querier, engine sqlgen.Engine) error {
	version, err := schemaVersion(ctx, q, engine)
	if err != nil {
		return err
	}
	if version >= sqlgen.SchemaVersion {
		return judgeVersion(version)
	}
	for _, statement := range sqlgen.SchemaStatements(engine) {
		if _, err := q.ExecContext(ctx, statement); err != nil {
			return mayNotCreate(err)
		}
	}
	version, err = schemaVersion(ctx, q, engine)
	if err != nil {
		return err
	}
	return judgeVersion(version)
}

// mayNotCreate returns err, or what it means if it is about privileges.
func mayNotCreate(err error) error {
	if setup := mysqlMayNotCreate(err); setup != nil {
		return setup
	}
	if SQLState(err) == "42501" {
		return &SetupError{
			Problem: "this role may not create the schema sqlfence",
			Remedy:  "run guard.Migrate once as the owner of the database, then GRANT what guard.CheckSetup asks for",
			Err:     err,
		}
	}
	return err
}

// CheckSetup returns nil if the database is ready for guarded writes by the
// role that q is connected as, and otherwise a *[SetupError] that names the
// call or the GRANTs that are missing. It writes nothing.
func CheckSetup(ctx context.Context, q Querier, engine sqlgen.Engine) error {
	if err := known(engine); err != nil {
		return err
	}
	ctx = Without(ctx)
	version, err := schemaVersion(ctx, q, engine)
	if err != nil {
		return err
	}
	if err := judgeVersion(version); err != nil {
		return err
	}
	switch engine {
	case sqlgen.SQLite:
		_, err := NewFence(q, engine).HighWater(ctx, "sqlfence")
		return err
	case sqlgen.MySQL:
		return checkMySQL(ctx, q)
	}
	return checkPrivileges(ctx, q)
}

// privileges asks by catalog and not by name: a role without USAGE on the
// schema cannot resolve a name in it.
const privileges = `SELECT CURRENT_USER::pg_catalog.text,
	pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
	COALESCE((SELECT pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'EXECUTE'))
		FROM pg_catalog.pg_proc AS p
		WHERE p.pronamespace OPERATOR(pg_catalog.=) n.oid AND p.proname OPERATOR(pg_catalog.=) 'pass'::pg_catalog.name), false),
	COALESCE((SELECT pg_catalog.bool_and(pg_catalog.has_table_privilege(c.oid, 'INSERT'))
		FROM pg_catalog.pg_class AS c
		WHERE c.relnamespace OPERATOR(pg_catalog.=) n.oid AND c.relname OPERATOR(pg_catalog.=) 'nothing'::pg_catalog.name), false)
FROM pg_catalog.pg_namespace AS n
WHERE n.nspname OPERATOR(pg_catalog.=) 'sqlfence'::pg_catalog.name`

func checkPrivileges(ctx context.Context, q Querier) error {
	var role string
	var usage, execute, insert bool
	if err := q.QueryRowContext(ctx, privileges).Scan(&role, &usage, &execute, &insert); err != nil {
		return err
	}
	to := ` TO "` + strings.ReplaceAll(role, `"`, `""`) + `"`
	var missing []string
	if !usage {
		missing = append(missing, "GRANT USAGE ON SCHEMA sqlfence"+to)
	}
	if !execute {
		missing = append(missing, "GRANT EXECUTE ON FUNCTION sqlfence.pass(text, bigint, bigint)"+to)
	}
	if !insert {
		missing = append(missing, "GRANT INSERT ON sqlfence.nothing"+to)
	}
	if len(missing) == 0 {
		return nil
	}
	return &SetupError{
		Problem: fmt.Sprintf("role %q may not use the fence", role),
		Remedy:  strings.Join(missing, "; "),
	}
}

// schemaVersion returns the version found, 0 where there is no schema.
func schemaVersion(ctx context.Context, q Querier, engine sqlgen.Engine) (int64, error) {
	var version int64
	err := q.QueryRowContext(ctx, sqlgen.VersionSQL(engine)).Scan(&version)
	if wrong := WrongEngine(err, engine); wrong != nil {
		return 0, wrong
	}
	if engine == sqlgen.SQLite && err != nil && isMissingTable(err) {
		return 0, nil
	}
	if engine == sqlgen.MySQL && !errors.Is(err, sql.ErrNoRows) {
		return mysqlVersion(version, err)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, err
}

// judgeVersion returns nil for the version that this program works with.
func judgeVersion(version int64) error {
	switch {
	case version == sqlgen.SchemaVersion:
		return nil
	case version == 0:
		return &SetupError{Problem: "the schema of sqlfence is missing", Remedy: "run guard.Migrate"}
	case version < sqlgen.SchemaVersion:
		return &SetupError{
			Problem: fmt.Sprintf("the schema of sqlfence has version %d, this program needs %d", version, sqlgen.SchemaVersion),
			Remedy:  "run guard.Migrate",
		}
	default:
		return &SetupError{
			Problem: fmt.Sprintf("the schema of sqlfence has version %d, this program knows %d", version, sqlgen.SchemaVersion),
			Remedy:  "build this program with a newer release of sqlfence",
		}
	}
}

// isBusy reports whether SQLite refused because somebody else had the lock.
// modernc.org/sqlite tells by a method, others by SQLite's text, which is
// never translated.
func isBusy(err error) bool {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		primary := coded.Code() & 0xff
		return primary == 5 || primary == 6 // SQLITE_BUSY, SQLITE_LOCKED
	}
	text := err.Error()
	return strings.Contains(text, "database is locked") || strings.Contains(text, "database table is locked")
}
