package shards_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/examples/shards"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// process is a process that owns shards.
type process struct {
	owned chan string // a shard each time that it gets one
	stop  func()      // and wait for the end
	db    *sql.DB
	ctxs  chan context.Context // the contexts that it got
}

func start(t *testing.T, dsn string, most int, all []string) *process {
	t.Helper()
	db, err := sql.Open(postgres.DriverName, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	leases, err := lease.NewManager(leasepg.New(db), lease.TTL(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{owned: make(chan string, len(all)), ctxs: make(chan context.Context, len(all)), db: db}
	owner := &shards.Owner{
		Leases: leases, Shards: all, Most: most,
		Work: func(ctx context.Context, shard string) error {
			if err := write(ctx, db, shard); err != nil {
				return err
			}
			p.ctxs <- ctx
			p.owned <- shard
			<-ctx.Done()
			return nil
		},
		Failed: func(shard string, err error) { t.Errorf("shard %s: %v", shard, err) },
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		owner.Run(ctx)
	}()
	p.stop = func() {
		cancel()
		<-ended
		leases.Close()
	}
	t.Cleanup(p.stop)
	return p
}

func write(ctx context.Context, db *sql.DB, shard string) error {
	_, err := db.ExecContext(ctx, `UPDATE shards SET writes = writes + 1 WHERE name = $1`, shard)
	return err
}

// take waits for n shards.
func (p *process) take(n int) (taken []string) {
	for range n {
		taken = append(taken, <-p.owned)
	}
	return taken
}

func TestProcessesShareShardsOut(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db, err := sql.Open(postgres.DriverName, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := guard.Migrate(t.Context(), db, sqlgen.PostgreSQL); err != nil {
			t.Fatal(err)
		}
		all := []string{"0", "1", "2", "3", "4", "5"}
		if _, err := db.ExecContext(t.Context(), `CREATE TABLE shards (name text PRIMARY KEY, writes int NOT NULL)`); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), `INSERT INTO shards SELECT g::text, 0 FROM generate_series(0, 5) AS g`); err != nil {
			t.Fatal(err)
		}
		a := start(t, dsn, 4, all)
		ofA := a.take(4)
		b := start(t, dsn, 6, all)
		ofB := b.take(2) // what a does not take
		if both := slices.Sorted(slices.Values(append(slices.Clone(ofA), ofB...))); !slices.Equal(both, all) {
			t.Fatalf("a has %v, b has %v", ofA, ofB)
		}
		a.stop() // and b takes the rest over
		if taken := slices.Sorted(slices.Values(b.take(4))); !slices.Equal(taken, slices.Sorted(slices.Values(ofA))) {
			t.Errorf("b took %v over, a had %v", taken, ofA)
		}
		// A goroutine of a's that nobody has stopped writes to its shard.
		late := context.WithoutCancel(<-a.ctxs)
		if err := write(late, a.db, ofA[0]); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("a, after the takeover: %v, want %v", err, guard.ErrFenced)
		}
	})
}
