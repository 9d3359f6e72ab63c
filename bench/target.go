package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/rate"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// way is how a write is done.
type way int

const (
	bare        way = iota // the driver without sqlfence
	noToken                // through sqlfence, with a context that carries no token
	guarded                // through sqlfence, under a token
	byHand                 // the text that sqlfence sends, given to the bare driver
	transaction            // bare driver: BEGIN, lock the fence's row, write, COMMIT
	foreignKey             // bare driver: an INSERT whose foreign key the engine checks
)

// op is what is written. A way that an operation lacks is not measured.
type op int

const (
	update op = iota
	insert
)

var (
	ways = map[op][]way{
		update: {bare, noToken, guarded, byHand, transaction},
		insert: {bare, noToken, guarded, byHand, transaction, foreignKey},
	}
	opNames  = [...]string{update: "UPDATE", insert: "INSERT"}
	wayNames = [...]string{
		bare:        "bare driver",
		noToken:     "sqlfence, no token",
		guarded:     "sqlfence, with a token",
		byHand:      "the same fence, written by hand",
		transaction: "transaction that locks the fence's row",
		foreignKey:  "bare driver, with a foreign key",
	}
)

// target is one engine with the tables and handles that the measurements use.
type target struct {
	name     string // engine and version
	settings string // what of its configuration matters here
	dialect  dialect
	bare     *sql.DB
	fenced   *sql.DB
	locking  *sql.DB        // the bare driver; its transactions take the write lock at BEGIN, where that is a setting
	held     []*lease.Lease // one per client, or one for all
	cleanup  []func() error // in reverse order
}

// dialect is what differs between the engines: the texts.
type dialect struct {
	engine     sqlgen.Engine
	create     []string
	reset      []string // brings the tables back to the same state before each cell
	drop       []string
	row        string // one client's row of the updated table
	update     string // 1: increment, 2: client
	insert     string // 1: parent, 2: number
	foreignKey string // 1: parent, 2: number
	lock       string // 1: resource, 2: epoch, 3: grant; locks the fence's row if it is at that mark
}

// prepare creates the tables, the leases and what the guard needs.
func (t *target) prepare(ctx context.Context, store lease.Store, o options) error {
	most := o.clients[len(o.clients)-1]
	for _, db := range []*sql.DB{t.bare, t.fenced, t.locking} {
		db.SetMaxOpenConns(most)
		db.SetMaxIdleConns(most)
	}
	if err := guard.Migrate(ctx, t.fenced, t.dialect.engine); err != nil {
		return err
	}
	if err := t.exec(ctx, t.dialect.drop...); err != nil {
		return err
	}
	t.cleanup = append(t.cleanup, func() error { return t.exec(context.WithoutCancel(ctx), t.dialect.drop...) })
	if err := t.exec(ctx, t.dialect.create...); err != nil {
		return err
	}
	leases, err := lease.NewManager(store, lease.TTL(24*time.Hour), lease.Owner("sqlfence bench"))
	if err != nil {
		return err
	}
	t.cleanup = append(t.cleanup, func() error { leases.Close(); return nil })
	for client := range most {
		if client > 0 && !o.own {
			t.held = append(t.held, t.held[0])
			continue
		}
		l, err := leases.TryAcquire(ctx, fmt.Sprintf("sqlfence-bench-%d", client))
		if err != nil {
			return err
		}
		t.held = append(t.held, l)
		t.cleanup = append(t.cleanup, func() error { return l.Release(context.WithoutCancel(ctx)) })
		if err := t.exec(ctx, fmt.Sprintf(`INSERT INTO sqlfence_bench_parent VALUES (%d)`, client)); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) exec(ctx context.Context, texts ...string) error {
	for _, text := range texts {
		if _, err := t.bare.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// close removes what prepare created, as far as it came.
func (t *target) close() error {
	var errs []error
	for i := len(t.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, t.cleanup[i]())
	}
	return errors.Join(errs...)
}

// writer returns one client's write, done in one way.
func (t *target) writer(ctx context.Context, o op, w way, client int) (func() error, error) {
	token := t.held[client].Token()
	parent := 0
	if t.held[client] != t.held[0] {
		parent = client
	}
	text, args := t.dialect.update, []any{1, client}
	if o == insert {
		text, args = t.dialect.insert, []any{parent, client}
	}
	exec := func(db *sql.DB, ctx context.Context, text string, args ...any) func() error {
		return func() error {
			_, err := db.ExecContext(ctx, text, args...)
			return err
		}
	}
	fence := []any{token.Resource, token.Epoch, token.Grant}
	switch w {
	case bare:
		return exec(t.bare, ctx, text, args...), nil
	case noToken:
		return exec(t.fenced, ctx, text, args...), nil
	case guarded:
		return exec(t.fenced, guard.With(ctx, token), text, args...), nil
	case byHand:
		spliced, err := sqlgen.Analyze(t.dialect.engine, text).Guarded(1)
		return exec(t.bare, ctx, spliced, append(args, fence...)...), err
	case foreignKey:
		return exec(t.bare, ctx, t.dialect.foreignKey, args...), nil
	case transaction:
		return func() error {
			tx, err := t.locking.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }() // after a commit it does nothing
			var one int
			if err := tx.QueryRowContext(ctx, t.dialect.lock, fence...).Scan(&one); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, text, args...); err != nil {
				return err
			}
			return tx.Commit()
		}, nil
	}
	return nil, fmt.Errorf("unknown way %d", w)
}

// round measures every way once with this many clients. The order differs from
// round to round, so that no way always follows the same one.
func (t *target) round(ctx context.Context, round, clients int, d time.Duration, r *results) error {
	for o := range opNames {
		o := op(o)
		for i := range ways[o] {
			w := ways[o][(i+round)%len(ways[o])]
			perSecond, err := t.measure(ctx, o, w, clients, d)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", opNames[o], wayNames[w], err)
			}
			r.add(cell{t.name, clients, o, w}, perSecond)
		}
	}
	return nil
}

// measure has the clients write for d and returns how often they did so per
// second. Each client updates a row of its own.
func (t *target) measure(ctx context.Context, o op, w way, clients int, d time.Duration) (float64, error) {
	if err := t.exec(ctx, t.dialect.reset...); err != nil {
		return 0, err
	}
	writers := make([]func() error, clients)
	for client := range writers {
		if err := t.exec(ctx, fmt.Sprintf(t.dialect.row, client)); err != nil {
			return 0, err
		}
		var err error
		if writers[client], err = t.writer(ctx, o, w, client); err != nil {
			return 0, err
		}
	}

	r, err := rate.Measure(d, writers)
	if err != nil {
		return 0, err
	}
	return r.PerSecond, t.verify(ctx, o, w, r.Calls)
}

// verify returns an error unless the database holds as many writes as were
// counted: a way that is quick because it does nothing must not win.
func (t *target) verify(ctx context.Context, o op, w way, want int64) error {
	query := `SELECT sum(n) FROM sqlfence_bench_update`
	switch {
	case w == foreignKey:
		query = `SELECT count(*) FROM sqlfence_bench_insert_fk`
	case o == insert:
		query = `SELECT count(*) FROM sqlfence_bench_insert`
	}
	var got int64
	if err := t.bare.QueryRowContext(ctx, query).Scan(&got); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%d writes are in the database, but %d were made", got, want)
	}
	return nil
}
