package guardtest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/guard/guardtest"
	"github.com/sqlfence/sqlfence/sqlgen"
)

var token = guard.Token{Resource: "job-42", Epoch: 7, Grant: 70}

// finish is the program under test.
func finish(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `UPDATE jobs SET status = $1 WHERE id = $2`, "done", 42); err != nil {
		return err
	}
	return tx.Commit()
}

func mocked(t *testing.T, matcher sqlmock.QueryMatcher, opts ...fence.Option) (*sql.DB, sqlmock.Sqlmock) {
	t.Helper()
	bare, mock, err := sqlmock.NewWithDSN(t.Name(), sqlmock.QueryMatcherOption(matcher))
	if err != nil {
		t.Fatal(err)
	}
	connector, err := fence.Wrap(bare.Driver(), sqlgen.PostgreSQL, opts...).(driver.DriverContext).OpenConnector(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() {
		if err := mock.ExpectationsWereMet(); err != nil {
			t.Error(err)
		}
		mock.ExpectClose()
		_ = db.Close()
		_ = bare.Close()
	})
	return db, mock
}

// A test that was written before there were tokens passes unchanged, and then says
// when the token becomes stale.
func TestFakeFence(t *testing.T) {
	var f guardtest.Fence
	db, mock := mocked(t, sqlmock.QueryMatcherEqual, fence.FakeFence(&f))
	ctx := guard.With(t.Context(), token)

	mock.ExpectBegin()
	mock.ExpectExec(`UPDATE jobs SET status = $1 WHERE id = $2`).WithArgs("done", 42).WillReturnResult(sqlmock.NewResult(0, 1))
	mock.ExpectCommit()
	if err := finish(ctx, db); err != nil {
		t.Error(err)
	}
	if n := f.Checks(); n != 1 {
		t.Errorf("%d checks, want 1", n)
	}

	f.Stale(token)
	mock.ExpectBegin()
	mock.ExpectRollback()
	if err := finish(ctx, db); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("got error %v, want ErrFenced", err)
	}
	f.Valid(guard.Token{Resource: "job-42", Epoch: 3})
	if _, err := db.ExecContext(ctx, `DELETE FROM jobs`); !errors.Is(err, guard.ErrUnregistered) {
		t.Errorf("got error %v, want ErrUnregistered", err)
	}
	// What cannot be guarded is refused, as by the real one.
	f.Reset()
	if _, err := db.ExecContext(ctx, `SELECT 1; DELETE FROM jobs`); !errors.Is(err, guard.ErrUnsupported) {
		t.Errorf("got error %v, want ErrUnsupported", err)
	}
}

func TestQueryMatcher(t *testing.T) {
	db, mock := mocked(t, guardtest.QueryMatcher(sqlgen.PostgreSQL, sqlmock.QueryMatcherEqual))
	const text = `UPDATE jobs SET status = $1 WHERE id = $2`
	other := guard.Token{Resource: "other", Epoch: 1}

	mock.ExpectExec(text).WithArgs("done", 42).WillReturnResult(sqlmock.NewResult(0, 1))
	guardtest.ExpectSetUp(mock, sqlgen.PostgreSQL)
	for _, tokens := range [][]guard.Token{{token}, {token, other}} {
		mock.ExpectExec(text).WithArgs(guardtest.Args(sqlgen.PostgreSQL, text, []driver.Value{"done", 42}, tokens...)...).
			WillReturnResult(sqlmock.NewResult(0, 1))
	}
	mock.ExpectExec(text).WillReturnError(guardtest.FencedError(token, 9))

	for _, ctx := range []context.Context{t.Context(), guard.With(t.Context(), token), guard.With(t.Context(), token, other)} {
		if _, err := db.ExecContext(ctx, text, "done", 42); err != nil {
			t.Error(err)
		}
	}
	_, err := db.ExecContext(guard.With(t.Context(), token), text, "done", 42)
	var f *guard.FencedError
	if !errors.As(err, &f) || f.HighWater != 9 || f.Token != token {
		t.Errorf("got error %v, want a FencedError of mark 9", err)
	}
	if err := guardtest.QueryMatcher(sqlgen.PostgreSQL, sqlmock.QueryMatcherEqual).Match(text, `DELETE FROM jobs`); err == nil {
		t.Error("another text matches")
	}
}
