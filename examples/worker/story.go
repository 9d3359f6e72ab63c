//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// parentConfig is what the story is told with.
type parentConfig struct {
	exe    string // this program
	driver string // the workers' database/sql driver
	dsn    string
	ttl    time.Duration
}

// rows is the content of the application's table, by id.
type rows map[int]string

// run tells the story (CASES D1) and returns an error if any step comes out
// otherwise. It waits for reports and for the database, never for a time.
func run(ctx context.Context, out io.Writer, c parentConfig) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute+10*c.ttl)
	defer cancel() // also ends the workers, whatever state they are in

	// Names of their own: the database is somebody's, and may be running this
	// program twice.
	suffix := strings.ToLower(rand.Text()[:8])
	table, resource := "worker_example_"+suffix, "job-1-"+suffix
	db, err := openBare(ctx, c.dsn, table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBare(db, table)) }()

	workerNamed := func(name string) workerConfig {
		return workerConfig{Name: name, Driver: c.driver, DSN: c.dsn, Table: table, Resource: resource, TTL: c.ttl}
	}
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }

	a, err := start(ctx, c.exe, workerNamed("A"))
	if err != nil {
		return err
	}
	defer a.kill()
	holdingA, err := a.expect(ctx, evHolding)
	if err != nil {
		return err
	}
	say("A  (process %d) holds the lease, epoch %d, for %v at a time", a.cmd.Process.Pid, holdingA.Epoch, c.ttl)
	if err := writeAsOwner(ctx, a); err != nil {
		return err
	}
	say("A  updates row 1")
	if err := expectRows(ctx, db, table, rows{1: "done by A", 2: "waiting"}); err != nil {
		return err
	}

	if err := a.stop(); err != nil {
		return fmt.Errorf("stop A: %w", err)
	}
	say("A  is stopped with SIGSTOP: no heartbeat any more")

	b, err := start(ctx, c.exe, workerNamed("B"))
	if err != nil {
		return err
	}
	defer b.kill()
	holdingB, err := b.expect(ctx, evHolding) // B waits until A's lease has lapsed
	if err != nil {
		return err
	}
	if holdingB.Epoch <= holdingA.Epoch {
		return fmt.Errorf("worker B holds epoch %d after A's %d: epochs must grow", holdingB.Epoch, holdingA.Epoch)
	}
	say("B  (process %d) holds the lease, epoch %d: A's has lapsed", b.cmd.Process.Pid, holdingB.Epoch)
	if err := writeAsOwner(ctx, b); err != nil {
		return err
	}
	say("B  updates row 1")
	bState := rows{1: "done by B", 2: "waiting"}
	if err := expectRows(ctx, db, table, bState); err != nil {
		return err
	}

	// The commands wait in the pipe: A executes them before anything else.
	if err := a.send(cmdInsert, cmdUpdate, cmdDelete); err != nil {
		return err
	}
	continued := time.Now()
	if err := a.proceed(); err != nil {
		return fmt.Errorf("continue A: %w", err)
	}
	say("A  is continued with SIGCONT, and goes on writing:")
	for pending := 4; pending > 0; pending-- {
		r, err := a.next(ctx)
		if err != nil {
			return err
		}
		if r.Event == evLost {
			took := time.Since(continued)
			if !r.Lost {
				return fmt.Errorf("the context of A ended with a cause that does not match ErrLost: %s", r.Error)
			}
			if heartbeat := c.ttl / 3; took > heartbeat {
				return fmt.Errorf("the context of A ended %v after A was continued, later than one heartbeat of %v", took, heartbeat)
			}
			if !strings.Contains(r.Error, resource) {
				return fmt.Errorf("the cause of A's loss does not name %q: %s", resource, r.Error)
			}
			say("A  learns it %v after it was continued; its context ends:\n     %s", took.Round(time.Millisecond), r.Error)
			continue
		}
		if err := checkRefused(r, resource, holdingA.Epoch, holdingB.Epoch); err != nil {
			return err
		}
		say("A  %s is refused:\n     %s", r.Event, r.Error)
	}
	if err := expectRows(ctx, db, table, bState); err != nil {
		return fmt.Errorf("after A's writes: %w", err)
	}
	say("   the rows are as B left them")

	if err := writeAsOwner(ctx, b); err != nil {
		return err
	}
	say("B  is not disturbed, and updates row 1 again")
	ended, err := a.finish(ctx)
	if err != nil {
		return err
	}
	if !ended.Lost {
		return fmt.Errorf("the Hold of A was expected to return ErrLost, but returned %q", ended.Error)
	}
	if ended, err = b.finish(ctx); err != nil {
		return err
	}
	if ended.Error != "" {
		return fmt.Errorf("the Hold of B returned an error: %s", ended.Error)
	}
	if err := expectRows(ctx, db, table, bState); err != nil {
		return err
	}
	say("SAFE")
	return nil
}

// writeAsOwner has a worker that holds the lease update row 1.
func writeAsOwner(ctx context.Context, p *process) error {
	if err := p.send(cmdUpdate); err != nil {
		return err
	}
	r, err := p.expect(ctx, cmdUpdate)
	if err == nil && r.Error != "" {
		err = fmt.Errorf("%s owns the lease, but its UPDATE failed: %s", p.name, r.Error)
	}
	return err
}

// checkRefused returns an error unless the report is a write that was refused
// with ErrFenced and a text that tells resource, presented epoch and mark.
func checkRefused(r report, resource string, presented, mark int64) error {
	if r.Error == "" {
		return fmt.Errorf("the %s of A was expected to be refused, but was accepted", r.Event)
	}
	if !r.Fenced || !r.Lost {
		return fmt.Errorf("the %s of A was expected to fail with ErrFenced, but failed with: %s", r.Event, r.Error)
	}
	for _, part := range []string{resource, "presented epoch " + strconv.FormatInt(presented, 10), "high-water mark " + strconv.FormatInt(mark, 10)} {
		if !strings.Contains(r.Error, part) {
			return fmt.Errorf("the error of A's %s lacks %q: %s", r.Event, part, r.Error)
		}
	}
	return nil
}

// openBare connects through the bare driver, and creates what the fence and
// the story need.
func openBare(ctx context.Context, dsn, table string) (*sql.DB, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, fmt.Errorf("cannot open the database: %w", err)
	}
	ping, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := db.PingContext(ping); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot reach the database: %w", err), db.Close())
	}
	if err := guard.Migrate(ctx, db, sqlgen.PostgreSQL); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create the schema of the fence: %w", err), db.Close())
	}
	for _, text := range []string{
		`CREATE TABLE ` + table + ` (id int PRIMARY KEY, value text NOT NULL)`,
		`INSERT INTO ` + table + ` VALUES (1, 'waiting'), (2, 'waiting')`,
	} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// closeBare drops the application's table. The schema of the fence stays:
// others may be using it.
func closeBare(db *sql.DB, table string) error {
	// Also after an interrupt, which has ended the story's context.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := db.ExecContext(ctx, `DROP TABLE `+table)
	return errors.Join(err, db.Close())
}

// expectRows returns an error unless the table holds exactly these rows.
func expectRows(ctx context.Context, db *sql.DB, table string, want rows) error {
	r, err := db.QueryContext(ctx, `SELECT id, value FROM `+table)
	if err != nil {
		return err
	}
	defer r.Close()
	got := rows{}
	for r.Next() {
		var id int
		var value string
		if err := r.Scan(&id, &value); err != nil {
			return err
		}
		got[id] = value
	}
	if err := r.Err(); err != nil {
		return err
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the rows were expected to be %v, but are %v", want, got)
	}
	return nil
}
