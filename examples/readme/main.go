package main

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"os"
	"time"

	_ "github.com/sqlfence/sqlfence/driver/postgres" // registers "sqlfence-pgx"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func main() {
	if err := work(context.Background(), os.Getenv("DATABASE_URL")); errors.Is(err, guard.ErrLost) {
		log.Fatal("the lease was lost, somebody else may have taken over: ", err)
	} else if err != nil {
		log.Fatal(err)
	}
}

// What stands between the markers is shown in README.md; a test compares them.
func work(ctx context.Context, dsn string) error {
	// README:begin
	db, err := sql.Open("sqlfence-pgx", dsn) // in place of "pgx"
	if err != nil {
		return err
	}
	defer db.Close()
	if err := guard.Migrate(ctx, db, sqlgen.PostgreSQL); err != nil { // idempotent
		return err
	}
	leases, err := lease.NewManager(leasepg.New(db), lease.TTL(30*time.Second))
	if err != nil {
		return err
	}
	defer leases.Close()
	// Hold waits until no other manager holds the lease, and renews it. Its ctx carries the token, and ends when the lease is lost.
	return leases.Hold(ctx, "job-42", func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, `UPDATE jobs SET status = $1 WHERE id = $2`, "done", 42)
		return err // once somebody else has taken over: guard.ErrFenced, which is guard.ErrLost too
	})
	// README:end
}
