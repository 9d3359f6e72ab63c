package driver_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// mocked opens a mock of PostgreSQL behind the fence, as a program's own tests
// would: by exact texts.
func mocked(t *testing.T) (*sql.DB, sqlmock.Sqlmock) {
	t.Helper()
	bare, mock, err := sqlmock.NewWithDSN(t.Name(), sqlmock.QueryMatcherOption(sqlmock.QueryMatcherEqual))
	if err != nil {
		t.Fatal(err)
	}
	connector := named{bare.Driver(), t.Name()}
	db := sql.OpenDB(fence.WrapConnector(connector, sqlgen.PostgreSQL))
	t.Cleanup(func() {
		mock.ExpectClose()
		db.Close()
		bare.Close()
		if err := mock.ExpectationsWereMet(); err != nil {
			t.Error(err)
		}
	})
	return db, mock
}

// named connects by name, as database/sql does for a driver without connectors.
type named struct {
	parent driver.Driver
	name   string
}

func (c named) Connect(context.Context) (driver.Conn, error) { return c.parent.Open(c.name) }
func (c named) Driver() driver.Driver                        { return c.parent }

func TestAProgramsMocksPassUnchangedWithoutAToken(t *testing.T) {
	db, mock := mocked(t)
	ctx := t.Context()

	mock.ExpectExec(`UPDATE jobs SET status = $1 WHERE id = $2 -- by id`).WithArgs("done", 42).
		WillReturnResult(sqlmock.NewResult(0, 1))
	mock.ExpectQuery(`SELECT status FROM jobs`).WillReturnRows(sqlmock.NewRows([]string{"status"}).AddRow("done"))
	mock.ExpectBegin()
	mock.ExpectPrepare(`DELETE FROM jobs WHERE id = $1`).ExpectExec().WithArgs(7).WillReturnResult(sqlmock.NewResult(0, 0))
	mock.ExpectCommit()

	res, err := db.ExecContext(ctx, `UPDATE jobs SET status = $1 WHERE id = $2 -- by id`, "done", 42)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		t.Errorf("%d rows, error %v; want 1 and nil", n, err)
	}
	var status string
	if err := db.QueryRowContext(ctx, `SELECT status FROM jobs`).Scan(&status); err != nil || status != "done" {
		t.Errorf("read %q, error %v; want done and nil", status, err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	stmt, err := tx.PrepareContext(ctx, `DELETE FROM jobs WHERE id = $1`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stmt.ExecContext(ctx, 7); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
}

func TestTheTextsUnderAToken(t *testing.T) {
	db, mock := mocked(t)
	token := guard.Token{Resource: "job-42", Epoch: 7, Grant: -3}
	ctx := guard.With(t.Context(), token)

	// Once per pool, the first guarded statement looks whether the database is
	// set up.
	mock.ExpectQuery(sqlgen.VersionSQL(sqlgen.PostgreSQL)).
		WillReturnRows(sqlmock.NewRows([]string{"version"}).AddRow(int64(sqlgen.SchemaVersion)))
	const guarded = `WITH sqlfence_k AS MATERIALIZED (SELECT sqlfence.pass($3::pg_catalog.text, $4::pg_catalog.int8, ` +
		`$5::pg_catalog.int8) AS ok), sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT FROM sqlfence_k ` +
		`WHERE NOT sqlfence_k.ok) UPDATE jobs SET status = $1 WHERE (SELECT sqlfence_k.ok FROM sqlfence_k) AND (id = $2)`
	mock.ExpectExec(guarded).WithArgs("done", 42, "job-42", int64(7), int64(-3)).WillReturnResult(sqlmock.NewResult(0, 1))
	mock.ExpectExec(guarded).WithArgs("done", 42, "job-42", int64(7), int64(-3)).
		WillReturnError(errors.New("ERROR: sqlfence: fenced: high_water=9 grant=-3 epoch=7 resource=job-42 (SQLSTATE SF001)"))
	mock.ExpectQuery(`SELECT 'update'`).WillReturnRows(sqlmock.NewRows([]string{"?column?"}).AddRow("update"))

	if _, err := db.ExecContext(ctx, `UPDATE jobs SET status = $1 WHERE id = $2`, "done", 42); err != nil {
		t.Error(err)
	}
	// An error without a SQLSTATE method is not the server's word: it stays what
	// it is, and the write is refused all the same.
	if _, err := db.ExecContext(ctx, `UPDATE jobs SET status = $1 WHERE id = $2`, "done", 42); err == nil {
		t.Error("the server's error was lost")
	}
	var word string
	if err := db.QueryRowContext(ctx, `SELECT 'update'`).Scan(&word); err != nil || word != "update" {
		t.Errorf("read %q, error %v; want update and nil", word, err)
	}
	// A statement that cannot be guarded is not sent at all.
	if _, err := db.ExecContext(ctx, `VACUUM jobs`); !errors.Is(err, guard.ErrUnsupported) {
		t.Errorf("VACUUM: error %v, want ErrUnsupported", err)
	}
}
