package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// SPEC G13: replication is asynchronous, and the standby has not heard of a
// takeover when it becomes the primary. It takes the former owner for the holder,
// and mints the epoch of the takeover again. A backup that is restored does the same.
func TestAFailoverThatLosesATakeover(t *testing.T) {
	primary := testserver.PrivatePostgreSQL(t, "wal_retrieve_retry_interval=100ms")
	db := open(t, "pgx", primary.DSN, "", "")
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE d (v text)`); err != nil {
		t.Fatal(err)
	}
	a := mustAcquire(t, leasepg.New(db), "r", "A")
	if err := db.Close(); err != nil { // for the copy the server stops
		t.Fatal(err)
	}
	standby := primary.Standby(t)
	standby.Stop(t) // it falls behind

	db = open(t, "pgx", primary.DSN, "", "")
	lapse(t, db, "r")
	b := mustAcquire(t, leasepg.New(db), "r", "B")
	fenced := open(t, postgres.DriverName, primary.DSN, "", "")
	verdicts(t, fenced, "after the takeover", map[string]verdict{"A": {a, guard.ErrFenced}, "B": {b, nil}})
	if err := errors.Join(db.Close(), fenced.Close()); err != nil {
		t.Fatal(err)
	}
	primary.Kill(t)

	standby.Start(t)
	db, err := sql.Open("pgx", standby.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `SELECT pg_promote()`); err != nil {
		t.Fatal(err)
	}
	fenced = open(t, postgres.DriverName, standby.DSN, "", "")
	s := leasepg.New(db)
	state, err := s.Inspect(t.Context(), "r")
	if err != nil || state.Owner != "A" || state.Epoch != a.Token.Epoch {
		t.Fatalf("after the failover: %+v, %v; expected the lease of A, or the test is about nothing", state, err)
	}
	// Of A and B one is accepted: the holder, as far as this server knows.
	verdicts(t, fenced, "after the failover", map[string]verdict{"A": {a, nil}, "B": {b, guard.ErrUnregistered}})
	renewed, err := s.Renew(t.Context(), []lease.Claim{claim(b, "B")})
	if err != nil || !errors.Is(renewed[0].Err, lease.ErrLost) {
		t.Errorf("renewal by B: %v, %v; expected a loss", renewed, err)
	}

	lapse(t, db, "r")
	c := mustAcquire(t, s, "r", "C")
	if c.Token.Epoch != b.Token.Epoch || c.Token.Grant == b.Token.Grant {
		t.Fatalf("tokens %v and %v: expected one epoch and two grants, or the test is about nothing", b.Token, c.Token)
	}
	verdicts(t, fenced, "of two grants of one epoch", map[string]verdict{"A": {a, guard.ErrFenced}, "B": {b, guard.ErrFenced}, "C": {c, nil}})
	if err := guard.NewFence(db, sqlgen.PostgreSQL).Advance(t.Context(), b.Token); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("advancing to the grant that was lost: %v; expected that it is fenced", err)
	}
}

type verdict struct {
	granted lease.Granted
	want    error
}

// verdicts writes under each token.
func verdicts(t *testing.T, fenced *sql.DB, when string, of map[string]verdict) {
	t.Helper()
	for holder, v := range of {
		_, err := fenced.ExecContext(guard.With(context.Background(), v.granted.Token), `INSERT INTO d VALUES ($1)`, holder)
		if !errors.Is(err, v.want) {
			t.Errorf("%s, the write of %s: %v; want %v", when, holder, err, v.want)
		}
	}
}
