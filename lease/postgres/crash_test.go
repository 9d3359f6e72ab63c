package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// The server is killed under load, where it acknowledges other commits before they
// are durable: no epoch is acknowledged twice, marks do not go back, and a
// token that was acknowledged is good or fenced, never forgotten.
func TestNoEpochIsAcknowledgedTwiceAcrossCrashes(t *testing.T) {
	server := testserver.PrivatePostgreSQL(t, "fsync=on", "synchronous_commit=off", "wal_writer_delay=10s", "full_page_writes=on")
	db := open(t, "pgx", server.DSN, "", "")
	const crashes, acquirers, enough = 3, 6, 60
	resources := []string{"r0", "r1"}
	var mu sync.Mutex
	granted := map[string]guard.Token{} // by resource and epoch
	highest := map[string]int64{}

	for crash := range crashes {
		s := leasepg.New(db)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		reached := make(chan struct{})
		count := 0
		for i := range acquirers {
			all.Go(func() {
				resource := resources[i%len(resources)]
				for ctx.Err() == nil {
					g, err := s.Acquire(ctx, lease.AcquireRequest{
						Resource: resource, Owner: "same", TTL: lease.MaxTTL, Wait: lease.MaxTTL,
					})
					if err != nil {
						continue // the server is being killed
					}
					key := fmt.Sprint(resource, "/", g.Token.Epoch)
					mu.Lock()
					if before, taken := granted[key]; taken {
						t.Errorf("crash %d: %v was acknowledged, and before it %v", crash, g.Token, before)
					}
					granted[key] = g.Token
					highest[resource] = max(highest[resource], g.Token.Epoch)
					if count++; count == enough {
						close(reached)
					}
					mu.Unlock()
				}
			})
		}
		<-reached
		server.Kill(t)
		stop()
		all.Wait()
		server.Start(t)
		for _, resource := range resources {
			state, err := leasepg.New(db).Inspect(t.Context(), resource)
			for retry := 0; err != nil && retry < 20; retry++ { // connections that died are replaced
				state, err = leasepg.New(db).Inspect(t.Context(), resource)
			}
			if err != nil {
				t.Fatal(err)
			}
			if state.HighWater < highest[resource] || state.Epoch < highest[resource] {
				t.Errorf("crash %d: after the restart %+v, but epoch %d was acknowledged", crash, state, highest[resource])
			}
		}
	}
	// G13: an older state is restored. Of two holders of one epoch at most one is
	// accepted. The resource is another one: what was given up above is withdrawn for
	// some seconds still, which moves an epoch.
	s := leasepg.New(db)
	mustAcquire(t, s, "restored", "same")
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE older AS SELECT * FROM sqlfence.leases WHERE resource = 'restored';
		CREATE TABLE older_marks AS SELECT * FROM sqlfence.fences WHERE resource = 'restored'`); err != nil {
		t.Fatal(err)
	}
	first := mustAcquire(t, s, "restored", "same")
	if _, err := db.ExecContext(t.Context(), `DELETE FROM sqlfence.leases WHERE resource = 'restored'; DELETE FROM sqlfence.fences WHERE resource = 'restored';
		INSERT INTO sqlfence.leases SELECT * FROM older; INSERT INTO sqlfence.fences SELECT * FROM older_marks`); err != nil {
		t.Fatal(err)
	}
	second := mustAcquire(t, s, "restored", "same")
	if first.Token.Epoch != second.Token.Epoch {
		t.Fatalf("%v and %v: expected one epoch twice, or the test is about nothing", first.Token, second.Token)
	}
	fence := guard.NewFence(db, sqlgen.PostgreSQL)
	if err := fence.Check(t.Context(), first.Token); err == nil {
		t.Error("the token of the state that was lost is accepted")
	}
	if err := fence.Check(t.Context(), second.Token); err != nil {
		t.Errorf("the token of the present state: %v", err)
	}
}
