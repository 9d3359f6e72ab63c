package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// ending is how an act is supposed to end.
type ending int

const (
	staleWriteWins    ending = iota // A's late write destroys B's work
	staleWriteRefused               // A's late write is refused, B's work stands
)

// worker is one of the two programs: a database handle, a lease manager, and
// the context that carries the token once the lease is held.
type worker struct {
	name   string
	db     *sql.DB
	leases *lease.Manager
	lease  *lease.Lease
	ctx    context.Context
}

// tell plays the story through the named driver and returns an error if any
// step does not come out as the ending demands. The driver's name is all that
// differs between the acts.
func tell(ctx context.Context, out io.Writer, s *stage, driverName string, want ending) error {
	if err := s.reset(ctx); err != nil {
		return err
	}
	a, err := s.newWorker("worker A", driverName)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := s.newWorker("worker B", driverName)
	if err != nil {
		return err
	}
	defer b.close()

	if a.lease, err = a.leases.TryAcquire(ctx, s.resource); err != nil {
		return fmt.Errorf("worker A takes the lease: %w", err)
	}
	a.ctx = guard.With(ctx, a.lease.Token())
	say(out, "A", "takes the lease: epoch %d", a.lease.Token().Epoch)
	say(out, "A", "freezes before it writes: a garbage collection, a suspended machine, a dead network")

	// B waits for as long as A's lease lives: nobody renews it, so it lapses.
	if b.lease, err = b.leases.Acquire(ctx, s.resource); err != nil {
		return fmt.Errorf("worker B takes over: %w", err)
	}
	b.ctx = guard.With(ctx, b.lease.Token())
	if b.lease.Token().Epoch <= a.lease.Token().Epoch {
		return fmt.Errorf("worker B got epoch %d after A's %d: epochs must grow", b.lease.Token().Epoch, a.lease.Token().Epoch)
	}
	say(out, "", "%v pass, the lease lapses", ttl)
	say(out, "B", "takes over: epoch %d", b.lease.Token().Epoch)
	if err := b.write(s, "done by B"); err != nil {
		return fmt.Errorf("the owner, B, writes: %w", err)
	}
	say(out, "B", "writes its result")
	if err := s.expectResult(ctx, out, "done by B"); err != nil {
		return err
	}

	say(out, "A", "wakes up, believes that it still holds the lease, and writes its result")
	staleErr := a.write(s, "done by A")
	switch {
	case want == staleWriteWins && staleErr != nil:
		return fmt.Errorf("the late write of A was expected to be accepted, but failed: %w", staleErr)
	case want == staleWriteRefused && staleErr == nil:
		return errors.New("the late write of A was expected to be refused, but was accepted")
	case want == staleWriteRefused && !errors.Is(staleErr, guard.ErrFenced):
		return fmt.Errorf("the late write of A was expected to fail with ErrFenced, but failed with: %w", staleErr)
	}

	if want == staleWriteWins {
		say(out, "", "accepted, without an error")
		if err := s.expectResult(ctx, out, "done by A"); err != nil {
			return err
		}
		say(out, "", "LOST: B's result is destroyed, and nobody was told")
		return nil
	}
	say(out, "", "REFUSED, errors.Is(err, guard.ErrFenced):")
	say(out, "", "  %v", staleErr)
	if err := s.expectResult(ctx, out, "done by B"); err != nil {
		return err
	}
	if err := b.write(s, "done by B, and checked"); err != nil {
		return fmt.Errorf("the owner, B, writes again: %w", err)
	}
	say(out, "B", "is not disturbed, and writes again")
	if err := s.expectResult(ctx, out, "done by B, and checked"); err != nil {
		return err
	}
	say(out, "", "SAFE: B's result stands")
	return nil
}

// write is what an application does: plain database/sql, with the context that
// it was handed.
func (w *worker) write(s *stage, result string) error {
	res, err := w.db.ExecContext(w.ctx, s.update, result)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows changed instead of 1", n)
	}
	return err
}

// close gives back what the worker holds. A lease that has been lost needs no
// release, and one that cannot be released lapses.
func (w *worker) close() {
	if w.lease != nil {
		_ = w.lease.Release(context.Background())
	}
	w.leases.Close()
	_ = w.db.Close()
}

// say prints a line of the story; who is "A", "B" or nobody.
func say(out io.Writer, who, format string, args ...any) {
	fmt.Fprintf(out, "  %-2s%s\n", who, fmt.Sprintf(format, args...))
}
