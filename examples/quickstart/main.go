// Command quickstart tells in two acts what a fence is for. Two workers share
// a job under a lease; one of them freezes, loses the lease without noticing,
// wakes up and writes. In the first act its late write destroys the new
// owner's work; in the second, with one line changed, it is refused.
//
//	go run ./examples/quickstart                      # SQLite, nothing to set up
//	go run ./examples/quickstart -dsn postgres://…    # the same on PostgreSQL
//
// The exit status is 0 only if every step came out as told.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// ttl is the time to live of the leases: short, because both acts wait for one
// to lapse.
const ttl = time.Second

func main() {
	dsn := flag.String("dsn", "", "run on the PostgreSQL database at this `URL` (postgres://…) instead of SQLite in a temporary directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *dsn)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run tells both acts and returns an error if any step came out otherwise.
func run(ctx context.Context, out io.Writer, dsn string) (err error) {
	s, err := newStage(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() {
		if e := s.close(); err == nil {
			err = e
		}
	}()
	fmt.Fprintf(out, "Two workers, A and B, share job 42 on %s.\n", s.description)
	fmt.Fprintf(out, "Only the holder of the lease on %q may write; a lease lasts %v unless it is renewed.\n", s.resource, ttl)

	fmt.Fprintf(out, "\nAct 1: a lease, but no fence          sql.Open(%q, …)\n\n", s.bareDriver)
	if err := tell(ctx, out, s, s.bareDriver, staleWriteWins); err != nil {
		return fmt.Errorf("act 1: %w", err)
	}
	fmt.Fprintf(out, "\nAct 2: the same program, fenced       sql.Open(%q, …)\n\n"+
		"    Epochs only grow: the release at the end of act 1 took one, too.\n", s.fencedDriver)
	if err := tell(ctx, out, s, s.fencedDriver, staleWriteRefused); err != nil {
		return fmt.Errorf("act 2: %w", err)
	}
	fmt.Fprint(out, "\nA lease alone cannot stop a worker that does not know that it has lost it.\n"+
		"The database can: each write carries the lease's epoch, and an old epoch is refused.\n")
	return nil
}
