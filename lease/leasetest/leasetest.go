// Package leasetest holds a [lease.Store] to the contract: every clause that
// any store must keep is a subtest, named by the sentence that it checks.
//
//	func TestConformance(t *testing.T) {
//		leasetest.Run(t, leasetest.Config{
//			New:   func(t testing.TB) lease.Store { return mystore.New(open(t)) },
//			Lapse: func(t testing.TB, s lease.Store, resource string) { /* set its expiry back */ },
//		})
//	}
//
// The suite never sleeps and never looks at this machine's clock.
package leasetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// Config is a store under test.
type Config struct {
	// New returns the store. It is called once; each subtest uses resources
	// of its own, so that the storage need not be empty. Eight goroutines
	// race for it: a connection pool that keeps fewer idle than that spends
	// most of the suite's time on connecting.
	New func(t testing.TB) lease.Store

	// Lapse makes the lease of a held resource lapse at once, as though its
	// TTL had passed: it sets the stored expiry back, or the clock forward by
	// more than an hour.
	Lapse func(t testing.TB, s lease.Store, resource string)

	// SetMark raises the high-water mark of a resource, as an Advance does;
	// the resource may be new. Where it is nil, the clauses about marks that
	// moved by themselves and about the end of the epochs are not part of what
	// is promised; the suite's log then lists them.
	SetMark func(t testing.TB, s lease.Store, resource string, mark int64)

	// Restart ends the server, without a warning if it can, brings it up again on
	// its data, and returns the store to go on with. Eight goroutines may be at
	// work meanwhile, and must then get errors, or go on. Where it is nil, what is
	// there after a restart is not part of what is promised.
	Restart func(t testing.TB, s lease.Store) lease.Store

	// Begin opens a transaction and returns a store that takes part in it, and what
	// ends it. Where it is nil, transactions are not part of what is promised.
	Begin func(t testing.TB, s lease.Store) (in lease.Store, commit, rollback func() error)

	// Rounds is how often acquirers race; 200 if 0. The environment variable
	// LEASETEST_ROUNDS goes before it.
	Rounds int
}

// roundsEnv is how often acquirers race, whatever the Config says.
const roundsEnv = "LEASETEST_ROUNDS"

// clause is one sentence of the contract.
type clause struct {
	name  string
	check func(t *testing.T, s *suite)
}

// Run checks every clause, each in a subtest of t.
func Run(t *testing.T, c Config) {
	t.Helper()
	if c.New == nil || c.Lapse == nil {
		t.Fatal("leasetest: Config.New and Config.Lapse are needed")
	}
	s := newSuite(t, c)
	for _, group := range []struct {
		name    string
		clauses []clause
	}{
		{"acquire", acquireClauses},
		{"reentry", reentryClauses},
		{"renew", renewClauses},
		{"release", releaseClauses},
		{"inspect", inspectClauses},
		{"ttl", ttlClauses},
		{"names", nameClauses},
		{"context", contextClauses},
		{"concurrency", concurrencyClauses},
		{"manager", managerClauses},
	} {
		t.Run(group.name, func(t *testing.T) { s.check(t, group.clauses) })
	}
	for _, group := range []struct {
		name, needs string
		given       bool
		clauses     []clause
	}{
		{"mark", "SetMark", c.SetMark != nil, markClauses},
		{"transaction", "Begin", c.Begin != nil, transactionClauses},
		{"restart", "Restart", c.Restart != nil, restartClauses},
	} {
		if group.given {
			t.Run(group.name, func(t *testing.T) { s.check(t, group.clauses) })
			continue
		}
		for _, k := range group.clauses {
			t.Logf("not checked here, since this Config has no %s: %s", group.needs, k.name)
		}
	}
}

func newSuite(t *testing.T, c Config) *suite {
	t.Helper()
	if c.Rounds == 0 {
		c.Rounds = 200
	}
	if text := os.Getenv(roundsEnv); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("leasetest: %s=%q is no number above 0", roundsEnv, text)
		}
		c.Rounds = n
	}
	return &suite{Config: c, store: c.New(t), run: rand.Uint32()}
}

// suite is a run of the clauses against one store.
type suite struct {
	Config
	store lease.Store
	run   uint32 // tells the resources of this run from those of earlier ones
	count int
}

func (s *suite) check(t *testing.T, clauses []clause) {
	for _, c := range clauses {
		t.Run(c.name, func(t *testing.T) { c.check(t, s) })
	}
}

const (
	// long is a TTL that does not end while the suite runs.
	long = time.Hour
	// tolerance is what an expiry may be off by (CASES D14).
	tolerance = 50 * time.Millisecond
	// patience bounds waits that should not be long.
	patience = 10 * time.Second
)

// resource returns a name that nobody has used.
func (s *suite) resource() string {
	s.count++
	return fmt.Sprintf("leasetest/%08x/%d", s.run, s.count)
}

// ask returns a request with the usual settings.
func ask(resource, owner string) lease.AcquireRequest {
	return lease.AcquireRequest{Resource: resource, Owner: owner, TTL: long, Wait: patience}
}

// acquire makes a request that must succeed.
func (s *suite) acquire(t *testing.T, req lease.AcquireRequest) lease.Granted {
	t.Helper()
	g, err := s.store.Acquire(t.Context(), req)
	if err != nil {
		t.Fatalf("Acquire(%q by %q): %v, want a grant", req.Resource, req.Owner, err)
	}
	if g.Token.Resource != req.Resource {
		t.Fatalf("Acquire(%q): token of resource %q", req.Resource, g.Token.Resource)
	}
	if err := g.Token.Validate(); err != nil {
		t.Fatalf("Acquire(%q): token %v: %v", req.Resource, g.Token, err)
	}
	if g.Token.Grant == 0 {
		t.Fatalf("Acquire(%q): token %v has grant 0, which means that it was issued elsewhere", req.Resource, g.Token)
	}
	return g
}

// take acquires a resource with the usual settings.
func (s *suite) take(t *testing.T, resource, owner string) lease.Claim {
	t.Helper()
	return claim(s.acquire(t, ask(resource, owner)), owner)
}

func claim(g lease.Granted, owner string) lease.Claim {
	return lease.Claim{Token: g.Token, Owner: owner, TTL: long}
}

// renew renews one claim; the error is the request's or the claim's.
func (s *suite) renew(ctx context.Context, t *testing.T, c lease.Claim) (time.Time, error) {
	t.Helper()
	renewed, err := s.store.Renew(ctx, []lease.Claim{c})
	if err != nil {
		return time.Time{}, err
	}
	if len(renewed) != 1 {
		t.Fatalf("Renew of one claim: %d results", len(renewed))
	}
	return renewed[0].Expiry, renewed[0].Err
}

// mustRenew makes a renewal that must succeed.
func (s *suite) mustRenew(t *testing.T, c lease.Claim) time.Time {
	t.Helper()
	expiry, err := s.renew(t.Context(), t, c)
	if err != nil {
		t.Fatalf("Renew(%v by %q): %v, want success", c.Token, c.Owner, err)
	}
	return expiry
}

func (s *suite) release(ctx context.Context, c lease.Claim) error {
	return s.store.Release(ctx, c, patience)
}

// mustRelease makes a release that must succeed.
func (s *suite) mustRelease(t *testing.T, c lease.Claim) {
	t.Helper()
	if err := s.release(t.Context(), c); err != nil {
		t.Fatalf("Release(%v by %q): %v, want success", c.Token, c.Owner, err)
	}
}

func (s *suite) inspect(t *testing.T, resource string) lease.State {
	t.Helper()
	state, err := s.store.Inspect(t.Context(), resource)
	if err != nil {
		t.Fatalf("Inspect(%q): %v", resource, err)
	}
	if state.Resource != resource {
		t.Fatalf("Inspect(%q): state of %q", resource, state.Resource)
	}
	return state
}

// lapse makes the lease lapse, and checks that it did.
func (s *suite) lapse(t *testing.T, resource string) {
	t.Helper()
	s.Lapse(t, s.store, resource)
	if state := s.inspect(t, resource); state.Status != lease.Lapsed {
		t.Fatalf("after Config.Lapse: %+v, want a lapsed lease", state)
	}
}

// now reads the store's clock, through a lease.
func (s *suite) now(t *testing.T) time.Time {
	t.Helper()
	resource := s.resource()
	s.take(t, resource, "clock")
	state := s.inspect(t, resource)
	return state.Expiry.Add(-state.Remaining)
}

// unchanged checks that nothing of the state was written since before.
func (s *suite) unchanged(t *testing.T, before lease.State) {
	t.Helper()
	after := s.inspect(t, before.Resource)
	if !same(before, after) {
		t.Errorf("state after a refusal: %+v, want it as before: %+v", after, before)
	}
}

// same compares all that is stored; Remaining only moves with the clock.
func same(a, b lease.State) bool {
	if !a.Expiry.Equal(b.Expiry) {
		return false
	}
	a.Expiry, b.Expiry = time.Time{}, time.Time{}
	a.Remaining, b.Remaining = 0, 0
	return a == b
}

// wantIs checks the cause of an error.
func wantIs(t *testing.T, what string, err error, causes ...error) {
	t.Helper()
	for _, cause := range causes {
		if !errors.Is(err, cause) {
			t.Errorf("%s: error %v, want one that matches %q", what, err, cause)
		}
	}
}

// wantLoss checks that err is a *lease.LossError with this cause, which tells
// what was presented and what was found.
func wantLoss(t *testing.T, what string, err error, cause error, c lease.Claim, found lease.State) {
	t.Helper()
	wantIs(t, what, err, cause, lease.ErrLost)
	for _, other := range []error{lease.ErrNotOwner, lease.ErrLapsed, lease.ErrEpochMismatch, guard.ErrFenced} {
		if !errors.Is(other, cause) && errors.Is(err, other) {
			t.Errorf("%s: error %v matches %q too, want only %q", what, err, other, cause)
		}
	}
	var loss *lease.LossError
	if !errors.As(err, &loss) {
		t.Errorf("%s: error %T, want a *lease.LossError", what, err)
		return
	}
	if loss.Claim.Token != c.Token || loss.Claim.Owner != c.Owner {
		t.Errorf("%s: error tells of %v by %q, want what was presented: %v by %q",
			what, loss.Claim.Token, loss.Claim.Owner, c.Token, c.Owner)
	}
	if loss.Holder != found.Owner || loss.Epoch != found.Epoch || loss.HighWater != found.HighWater {
		t.Errorf("%s: error tells of holder %q, epoch %d, mark %d; found was %q, %d, %d",
			what, loss.Holder, loss.Epoch, loss.HighWater, found.Owner, found.Epoch, found.HighWater)
	}
}

// wantHeld checks that err is a *lease.HeldError that tells who holds what.
func wantHeld(t *testing.T, what string, err error, resource, holder string) {
	t.Helper()
	wantIs(t, what, err, lease.ErrNotAcquirable)
	var held *lease.HeldError
	if !errors.As(err, &held) {
		t.Errorf("%s: error %T, want a *lease.HeldError", what, err)
		return
	}
	if held.Resource != resource || held.Holder != holder {
		t.Errorf("%s: error tells that %q is held by %q, want %q by %q", what, held.Resource, held.Holder, resource, holder)
	}
	if held.Remaining <= 0 || held.Remaining > long {
		t.Errorf("%s: error tells of a remaining TTL of %v, want more than 0, up to %v", what, held.Remaining, long)
	}
}
