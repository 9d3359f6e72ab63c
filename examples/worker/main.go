//go:build unix

// Command worker shows the fence between operating-system processes on
// PostgreSQL. It starts itself twice, as worker A and worker B; stops A with
// SIGSTOP in the middle of its work, for longer than A's lease lives; lets B
// take over; and continues A, which goes on writing as if nothing had
// happened. All that A tries is refused.
//
//	go run ./examples/worker -dsn postgres://user@localhost:5432/database
//
// app.go is the application: plain database/sql code. child.go is a worker,
// story.go the parent. The exit status is 0 only if every step came out as
// told.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := dispatch(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// dispatch is the parent's program, or a worker's.
func dispatch(ctx context.Context) error {
	if config, ok := os.LookupEnv(childVariable); ok {
		var c workerConfig
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			return fmt.Errorf("%s: %w", childVariable, err)
		}
		return work(ctx, c, os.Stdin, os.Stdout)
	}
	dsn := flag.String("dsn", "", "the `URL` of a PostgreSQL database (postgres://…); required")
	ttl := flag.Duration("ttl", 2*time.Second, "the time to live of the lease, which A is stopped for")
	flag.Parse()
	if *dsn == "" {
		return fmt.Errorf("-dsn is missing: give the URL of a PostgreSQL database, such as postgres://user@localhost:5432/database")
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return run(ctx, os.Stdout, parentConfig{exe: exe, driver: "sqlfence-pgx", dsn: *dsn, ttl: *ttl})
}
