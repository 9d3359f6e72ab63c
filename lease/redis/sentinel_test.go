package redis_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	sqlitedriver "github.com/sqlfence/sqlfence/driver/sqlite"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// behind returns a client that asks the sentinel where the master is.
func behind(t *testing.T, pair *testserver.Sentinel) *goredis.Client {
	t.Helper()
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: pair.MasterName, SentinelAddrs: []string{pair.Addr}, PoolSize: 20,
	})
	t.Cleanup(func() { _ = client.Close() }) // what it tells of connections to the killed master
	return client
}

func TestConformanceBehindSentinel(t *testing.T) {
	conform(t, behind(t, testserver.RedisSentinel(t)))
}

// Replication is asynchronous: the new master may not have heard of a takeover. It
// then takes the former owner for the holder, and mints the epoch of the takeover
// again. Of all who believe that they hold the lease, the fence accepts one: SPEC G13.
func TestAFailoverThatLosesATakeover(t *testing.T) {
	pair := testserver.RedisSentinel(t)
	client := behind(t, pair)
	store := leaseredis.New(client)

	db, err := sql.Open(sqlitedriver.DriverName, "file:"+testserver.SQLiteFile(t)+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE d (id INT, v TEXT)`); err != nil {
		t.Fatal(err)
	}
	fence := guard.NewFence(db, sqlgen.SQLite)
	write := func(token guard.Token, v string) error {
		_, err := db.ExecContext(guard.With(t.Context(), token), `INSERT INTO d VALUES (1, ?)`, v)
		return err
	}
	manager := func(owner string) *lease.Manager {
		m, err := lease.NewManager(store, lease.Owner(owner), lease.TTL(time.Hour), lease.WithFence(fence))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	take := func(m *lease.Manager) *lease.Lease {
		t.Helper()
		l, err := m.TryAcquire(t.Context(), "healed")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	accepted := func(when, holder string, claims map[string]guard.Token) {
		t.Helper()
		for name, token := range claims {
			err := write(token, name)
			if name == holder && err != nil {
				t.Errorf("%s: the write of %s: %v", when, name, err)
			}
			if name != holder && !errors.Is(err, guard.ErrFenced) {
				t.Errorf("%s: the write of %s: %v; expected that it is fenced", when, name, err)
			}
		}
	}

	// Two resources: one whose managers have the fence, and one whose owners advance
	// it themselves, and take what the store gives them.
	a := take(manager("A"))
	bareA := mustAcquire(t, store, request("bare", "A"))
	pair.CutReplica(t)
	for _, resource := range []string{"healed", "bare"} {
		lapse(t, client, store, resource)
	}
	b := take(manager("B"))
	bareB := mustAcquire(t, store, request("bare", "B"))
	if err := fence.Advance(t.Context(), bareB.Token); err != nil {
		t.Fatal(err)
	}
	accepted("after the takeover", "B", map[string]guard.Token{"A": a.Token(), "B": b.Token()})

	pair.Master.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var state lease.State
	for state.Owner == "" {
		if state, err = store.Inspect(ctx, "healed"); ctx.Err() != nil {
			t.Fatalf("no new master: %v", err)
		}
	}
	if state.Owner != "A" || state.Epoch != a.Token().Epoch || state.Status != lease.Held {
		t.Fatalf("after the failover: %+v; expected the lease of A, or the test is about nothing", state)
	}
	// The store takes A for the holder again; the fence does not.
	renewed, err := store.Renew(t.Context(), []lease.Claim{claim(bareA, "A"), claim(bareB, "B")})
	if err != nil || renewed[0].Err != nil || !errors.Is(renewed[1].Err, lease.ErrNotOwner) {
		t.Errorf("renewals after the failover: %v, %v; expected A's to succeed, and B's not to", renewed, err)
	}
	if err := b.Renew(t.Context()); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renewal by B after the failover: %v; expected a loss", err)
	}
	accepted("after the failover", "B", map[string]guard.Token{"A": a.Token(), "B": b.Token()})

	// The next owner: the fence is the floor.
	for _, resource := range []string{"healed", "bare"} {
		lapse(t, client, store, resource)
	}
	c := take(manager("C"))
	if c.Token().Epoch <= b.Token().Epoch {
		t.Errorf("epoch %d after %d: expected a greater one", c.Token().Epoch, b.Token().Epoch)
	}
	accepted("after the next takeover", "C", map[string]guard.Token{"A": a.Token(), "B": b.Token(), "C": c.Token()})

	// Without it the epoch of B is issued a second time, and only the grants differ.
	bareC := mustAcquire(t, store, request("bare", "C"))
	if bareC.Token.Epoch != bareB.Token.Epoch || bareC.Token.Grant == bareB.Token.Grant {
		t.Errorf("tokens %v and %v: expected one epoch and two grants, or the test is about nothing", bareB.Token, bareC.Token)
	}
	if err := fence.Advance(t.Context(), bareC.Token); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("advancing to the second grant of an epoch: %v; expected that it is fenced", err)
	}
	accepted("of two grants of one epoch", "B", map[string]guard.Token{"A": bareA.Token, "B": bareB.Token, "C": bareC.Token})
}
