package guardtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/DATA-DOG/go-sqlmock"
	"modernc.org/sqlite"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/guard/guardtest"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// The program under test works under a lease, on any database that the test likes
// to have: the fence is in memory, and the test shuts it. A driver's name is the
// process's, so each fake fence has a name of its own.
func Example_fakeFence() {
	var shut guardtest.Fence
	fence.Register("sqlite-with-a-fake-fence", &sqlite.Driver{}, sqlgen.SQLite, fence.FakeFence(&shut))
	db, err := sql.Open("sqlite-with-a-fake-fence", "file::memory:?cache=shared")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT)`); err != nil {
		fmt.Println(err)
		return
	}
	leases, err := lease.NewManager(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Close()

	work := func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, `UPDATE jobs SET status = ? WHERE id = ?`, "done", 42)
		return err
	}
	fmt.Println("the owner:", leases.Hold(context.Background(), "job-42", work))

	// The grant need not be known: Stale goes by resource and epoch.
	err = leases.Hold(context.Background(), "job-42", func(ctx context.Context) error {
		shut.Stale(guard.Tokens(ctx)[0])
		return work(ctx)
	})
	fmt.Println("after a takeover:", errors.Is(err, guard.ErrFenced))
	// Output:
	// the owner: <nil>
	// after a takeover: true
}

// With sqlmock and the real fence: NewWithDSN, since the driver of the mock is opened
// by that name, and the driver of the mock is registered behind the fence.
func Example_sqlmock() {
	bare, mock, err := sqlmock.NewWithDSN("jobs-mock",
		sqlmock.QueryMatcherOption(guardtest.QueryMatcher(sqlgen.PostgreSQL, sqlmock.QueryMatcherEqual)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer bare.Close()
	fence.Register("fenced-jobs-mock", bare.Driver(), sqlgen.PostgreSQL)
	db, err := sql.Open("fenced-jobs-mock", "jobs-mock")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	const text = `UPDATE jobs SET status = $1 WHERE id = $2`
	token := guard.Token{Resource: "job-42", Epoch: 7, Grant: 70}
	guardtest.ExpectSetUp(mock, sqlgen.PostgreSQL) // before the first guarded statement
	mock.ExpectExec(text).WillReturnResult(sqlmock.NewResult(0, 1))
	mock.ExpectExec(text).WillReturnError(guardtest.FencedError(token, 9))
	mock.ExpectClose()
	mock.ExpectClose() // bare's

	ctx := guard.With(context.Background(), token)
	for range 2 {
		_, err := db.ExecContext(ctx, text, "done", 42)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// sqlfence: fenced: resource "job-42": presented epoch 7, high-water mark 9
}
