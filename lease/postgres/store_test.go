package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func request(resource, owner string) lease.AcquireRequest {
	return lease.AcquireRequest{Resource: resource, Owner: owner, TTL: time.Minute, Wait: 20 * time.Second}
}

func mustAcquire(t *testing.T, s *leasepg.Store, resource, owner string) lease.Granted {
	t.Helper()
	g, err := s.Acquire(t.Context(), request(resource, owner))
	if err != nil {
		t.Fatalf("acquire of %q by %q: %v", resource, owner, err)
	}
	return g
}

func claim(g lease.Granted, owner string) lease.Claim {
	return lease.Claim{Token: g.Token, Owner: owner, TTL: time.Minute}
}

// Every operation works the same, whatever mode a driver sends statements in, and
// with names that need quoting in an array.
func TestEveryOperationInEveryMode(t *testing.T) {
	names := []string{`job`, `a"b`, `a\b`, `{a,b}`, `NULL`, ` a `, "a\nb", `'; DROP TABLE d; --`, `$1`, `Jöb/日本`, `?`}
	modes := []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol", "lib/pq"}
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		for _, mode := range modes {
			t.Run(mode, func(t *testing.T) {
				driver, setting := "pgx", "default_query_exec_mode"
				if mode == "lib/pq" {
					driver, setting = "postgres", ""
				}
				db := open(t, driver, dsn, setting, mode)
				s := leasepg.New(db)
				ctx := t.Context()
				var claims []lease.Claim
				for _, name := range names {
					claims = append(claims, claim(mustAcquire(t, s, name, "owner of "+name), "owner of "+name))
				}
				for round := range 2 {
					if _, err := s.Acquire(ctx, request(names[round], "other")); !errors.Is(err, lease.ErrNotAcquirable) {
						t.Errorf("acquire of a held resource: %v", err)
					}
					renewed, err := s.Renew(ctx, claims)
					if err != nil {
						t.Fatal(err)
					}
					for i, r := range renewed {
						if r.Err != nil {
							t.Errorf("renewal of %q: %v", names[i], r.Err)
						}
						state, err := s.Inspect(ctx, names[i])
						if err != nil || state.Resource != names[i] || state.Owner != claims[i].Owner || state.Status != lease.Held || !state.Expiry.Equal(r.Expiry) {
							t.Errorf("inspect of %q: %+v, %v; renewed until %v", names[i], state, err, r.Expiry)
						}
					}
				}
				all, err := s.InspectPrefix(ctx, "", "", 1000)
				if err != nil || len(all) != len(names) {
					t.Errorf("%d states, %v; want %d", len(all), err, len(names))
				}
				some, err := s.InspectPrefix(ctx, "a", "a\nb", 1)
				if err != nil || len(some) != 1 || some[0].Resource != `a"b` {
					t.Errorf("the first name after a\\nb that begins with a: %+v, %v", some, err)
				}
				for _, c := range claims {
					if err := s.Release(ctx, c, 10*time.Second); err != nil {
						t.Errorf("release of %q: %v", c.Token.Resource, err)
					}
				}
				if n, err := s.Purge(ctx, 0, 1000); err != nil || n != int64(len(names)) {
					t.Errorf("purged %d, %v; want %d", n, err, len(names))
				}
			})
		}
	})
}

// D7: renew and release by whoever is not the owner are refused, each with its
// cause, and change not a byte.
func TestNobodyButTheOwnerRenewsOrReleases(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		s := leasepg.New(db)
		old := mustAcquire(t, s, "r", "A")
		own := mustAcquire(t, s, "r", "A")
		others := mustAcquire(t, s, "other", "B")
		contents := func() (text string) {
			t.Helper()
			err := db.QueryRow(`SELECT (SELECT string_agg(l::text || xmin, ';') FROM sqlfence.leases l) || (SELECT string_agg(f::text || xmin, ';') FROM sqlfence.fences f)`).Scan(&text)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		before := contents()
		for _, tt := range []struct {
			name  string
			claim lease.Claim
			cause error
		}{
			{"B's own handle", lease.Claim{Token: guard.Token{Resource: "r", Epoch: others.Token.Epoch, Grant: others.Token.Grant}, Owner: "B", TTL: time.Minute}, lease.ErrNotOwner},
			{"A's token, other owner", claim(own, "B"), lease.ErrNotOwner},
			{"A's owner, older token", claim(old, "A"), lease.ErrEpochMismatch},
			{"A's owner, other grant", lease.Claim{Token: guard.Token{Resource: "r", Epoch: own.Token.Epoch, Grant: own.Token.Grant + 1}, Owner: "A", TTL: time.Minute}, lease.ErrEpochMismatch},
			{"A's owner, later epoch", lease.Claim{Token: guard.Token{Resource: "r", Epoch: own.Token.Epoch + 1, Grant: own.Token.Grant}, Owner: "A", TTL: time.Minute}, lease.ErrEpochMismatch},
			{"no owner", claim(own, ""), lease.ErrInvalidInput},
			{"unknown resource", lease.Claim{Token: guard.Token{Resource: "unknown", Epoch: 1, Grant: 1}, Owner: "A", TTL: time.Minute}, lease.ErrNotOwner},
		} {
			renewed, err := s.Renew(t.Context(), []lease.Claim{tt.claim})
			if err != nil || !errors.Is(renewed[0].Err, tt.cause) {
				t.Errorf("renewal with %s: %v, %v; want %v", tt.name, err, renewed, tt.cause)
			}
			if err := s.Release(t.Context(), tt.claim, 0); !errors.Is(err, tt.cause) {
				t.Errorf("release with %s: %v; want %v", tt.name, err, tt.cause)
			}
			if tt.cause != lease.ErrInvalidInput && (!errors.Is(renewed[0].Err, lease.ErrLost) || !errors.Is(renewed[0].Err, guard.ErrLost)) {
				t.Errorf("renewal with %s: %v is not a loss", tt.name, renewed[0].Err)
			}
		}
		if after := contents(); after != before {
			t.Errorf("refusals changed\n%s to\n%s", before, after)
		}
		if _, err := s.Acquire(t.Context(), request("r", "")); !errors.Is(err, lease.ErrInvalidInput) {
			t.Errorf("acquire without an owner: %v", err)
		}
	})
}

// D12: neither the sessions' time zones nor a change of the hour matter.
func TestTimeZonesDoNotMatter(t *testing.T) {
	zones := []string{"Asia/Tokyo", "UTC", "America/New_York", "Australia/Lord_Howe"}
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		for _, zone := range zones {
			a := leasepg.New(open(t, "pgx", dsn, "timezone", zone))
			for _, other := range zones {
				db := open(t, "pgx", dsn, "timezone", other)
				b := leasepg.New(db)
				resource := zone + " " + other
				// 300 days contain a change of the hour, wherever there is one.
				req := request(resource, "A")
				req.TTL = 300 * 24 * time.Hour
				g, err := a.Acquire(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				var now int64
				if err := db.QueryRow(`SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8`).Scan(&now); err != nil {
					t.Fatal(err)
				}
				if early := time.UnixMicro(now).Add(req.TTL).Sub(g.Expiry); early < 0 || early > 10*time.Second {
					t.Errorf("%s: the lease is %v shorter than its TTL", zone, early)
				}
				if g.TTL != req.TTL {
					t.Errorf("%s: TTL %v, not %v", zone, g.TTL, req.TTL)
				}
				state, err := b.Inspect(t.Context(), resource)
				if err != nil || !state.Expiry.Equal(g.Expiry) || state.Status != lease.Held || state.Remaining > req.TTL || state.Remaining < req.TTL-10*time.Second {
					t.Errorf("%s sees %+v, %v; %s was granted until %v", other, state, err, zone, g.Expiry)
				}
				var held *lease.HeldError
				if _, err := b.Acquire(t.Context(), request(resource, "B")); !errors.As(err, &held) || held.Remaining < req.TTL-10*time.Second || held.Remaining > req.TTL {
					t.Errorf("%s: acquire of what %s holds: %v", other, zone, err)
				}
				lapse(t, db, resource)
				mustAcquire(t, b, resource, "B")
			}
		}
	})
}

// D14: what is no TTL is refused, by the store and by the SQL functions, and what
// is one is honoured.
func TestTTLEdges(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		s := leasepg.New(db)
		for _, ttl := range []time.Duration{0, -time.Second, 1, 999 * time.Microsecond, lease.MaxTTL + 1, math.MaxInt64, math.MinInt64} {
			req := request("r", "A")
			req.TTL = ttl
			if _, err := s.Acquire(t.Context(), req); !errors.Is(err, lease.ErrInvalidInput) {
				t.Errorf("acquire with TTL %v: %v", ttl, err)
			}
			renewed, err := s.Renew(t.Context(), []lease.Claim{{Token: guard.Token{Resource: "r", Epoch: 1}, Owner: "A", TTL: ttl}})
			if err != nil || !errors.Is(renewed[0].Err, lease.ErrInvalidInput) {
				t.Errorf("renewal with TTL %v: %v, %v", ttl, renewed, err)
			}
		}
		for _, ttl := range []time.Duration{time.Millisecond, 500 * time.Millisecond, time.Hour, lease.MaxTTL} {
			req := request(ttl.String(), "A")
			req.TTL = ttl
			g, err := s.Acquire(t.Context(), req)
			if err != nil || g.TTL != ttl {
				t.Errorf("acquire with TTL %v: %+v, %v", ttl, g, err)
			}
		}
		for _, ttl := range []string{"0", "-1 s", "999 us", "10 years 1 day", "100000 years", "1 mon -30 days"} {
			for _, text := range []string{
				`SELECT sqlfence.acquire('x', 'A', $1::text::interval)`, `SELECT sqlfence.renew('x', 'A', 1, 1, $1::text::interval)`,
				`SELECT sqlfence.renew_batch('{x}', '{A}', '{1}', '{1}', ARRAY[$1::text::interval])`,
			} {
				if _, err := db.Exec(text, ttl); fencetest.State(err) != "SF003" {
					t.Errorf("%s with %s: %v", text, ttl, err)
				}
			}
		}
		if _, err := db.Exec(`SELECT sqlfence.acquire('x', 'A', NULL)`); fencetest.State(err) != "SF003" {
			t.Errorf("acquire with a TTL that is null: %v", err)
		}
	})
}

// A batch of renewals does not wait for a locked row and renews all others; alone,
// the claim waits, and no longer than its context allows.
func TestAStuckRowDelaysNoOtherLease(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		d := fencetest.Attach(t, dsn)
		s := leasepg.New(db)
		var claims []lease.Claim
		for i := range 5 {
			name := fmt.Sprint("r", i)
			claims = append(claims, claim(mustAcquire(t, s, name, "A"), "A"))
		}
		claims = append(claims, lease.Claim{Token: guard.Token{Resource: "r9", Epoch: 1, Grant: 1}, Owner: "A", TTL: time.Minute},
			lease.Claim{Owner: "A"})
		slices.Reverse(claims)
		stuck := d.Session()
		stuck.Must(`BEGIN`)
		stuck.Must(`SELECT FROM sqlfence.leases WHERE resource = 'r2' FOR UPDATE`)
		renewed, err := s.Renew(t.Context(), claims)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range renewed {
			switch name := claims[i].Token.Resource; name {
			case "r2":
				if r.Err == nil || errors.Is(r.Err, lease.ErrLost) {
					t.Errorf("the locked one: %v", r.Err)
				}
			case "r9":
				if !errors.Is(r.Err, lease.ErrNotOwner) {
					t.Errorf("the unknown one: %v", r.Err)
				}
			case "":
				if !errors.Is(r.Err, lease.ErrInvalidInput) {
					t.Errorf("the invalid one: %v", r.Err)
				}
			default:
				if r.Err != nil || r.Expiry.IsZero() {
					t.Errorf("%s: %+v", name, r)
				}
			}
		}
		i := slices.IndexFunc(claims, func(c lease.Claim) bool { return c.Token.Resource == "r2" })
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		alone, err := s.Renew(ctx, claims[i:i+1])
		if err != nil || alone[0].Err == nil || errors.Is(alone[0].Err, lease.ErrLost) {
			t.Errorf("the locked one, alone, until the deadline: %v, %v", alone, err)
		}
		done := make(chan error, 1)
		go func() {
			alone, err := s.Renew(t.Context(), claims[i:i+1])
			if err == nil {
				err = alone[0].Err
			}
			done <- err
		}()
		d.UntilWaiting(1, "sqlfence.renew")
		stuck.Must(`COMMIT`)
		if err := <-done; err != nil {
			t.Errorf("the locked one, alone, once it is free: %v", err)
		}
	})
}

// In a transaction of the caller's the operation takes part.
func TestOperationsTakePartInATransaction(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		db := open(t, "pgx", dsn, "", "")
		outside := leasepg.New(db)
		first := mustAcquire(t, outside, "r", "A")
		check := guard.NewFence(db, sqlgen.PostgreSQL)

		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		inside := leasepg.New(tx)
		second := mustAcquire(t, inside, "r", "A")
		created := mustAcquire(t, inside, "new", "A")
		// A denial leaves the transaction usable.
		if _, err := inside.Acquire(t.Context(), request("r", "B")); !errors.Is(err, lease.ErrNotAcquirable) {
			t.Errorf("acquire by somebody else: %v", err)
		}
		if renewed, err := inside.Renew(t.Context(), []lease.Claim{claim(second, "A"), claim(first, "A")}); err != nil ||
			renewed[0].Err != nil || !errors.Is(renewed[1].Err, lease.ErrEpochMismatch) {
			t.Errorf("renewals: %+v, %v", renewed, err)
		}
		if state, err := outside.Inspect(t.Context(), "r"); err != nil || state.Epoch != first.Token.Epoch {
			t.Errorf("seen from outside before the commit: %+v, %v", state, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := check.Check(t.Context(), first.Token); err != nil {
			t.Errorf("the token from before, after the rollback: %v", err)
		}
		if err := check.Check(t.Context(), second.Token); !errors.Is(err, guard.ErrUnregistered) {
			t.Errorf("the token that was rolled back: %v", err)
		}
		if err := check.Check(t.Context(), created.Token); !errors.Is(err, guard.ErrUnregistered) {
			t.Errorf("the token of the resource that was rolled back: %v", err)
		}

		tx, err = db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		third := mustAcquire(t, leasepg.New(tx), "r", "A")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := check.Check(t.Context(), third.Token); err != nil {
			t.Errorf("the token that was committed: %v", err)
		}
		if err := check.Check(t.Context(), first.Token); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("the token from before, after the commit: %v", err)
		}
		// G13: a rolled-back epoch was granted again, to somebody who is not it.
		if second.Token.Epoch != third.Token.Epoch {
			t.Errorf("epochs %d and %d: the test is not about the same epoch", second.Token.Epoch, third.Token.Epoch)
		}
		if err := check.Check(t.Context(), second.Token); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("the rolled-back token of the same epoch: %v", err)
		}
	})
}

// The store's own statements are not guarded by a token that the caller's context
// happens to carry, with the fenced driver as with the bare one.
func TestTheStoreIsNotGuardedByTheCallersToken(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		s := leasepg.New(open(t, fencedDriver, dsn, "", ""))
		ctx := guard.With(t.Context(), guard.Token{Resource: "other", Epoch: 1, Grant: 1})
		g, err := s.Acquire(ctx, request("r", "A"))
		if err != nil {
			t.Fatal(err)
		}
		if renewed, err := s.Renew(ctx, []lease.Claim{claim(g, "A")}); err != nil || renewed[0].Err != nil {
			t.Errorf("renewal: %v, %v", renewed, err)
		}
		if err := s.Release(ctx, claim(g, "A"), 0); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

// Without the schema, and without its privileges, the error says what to do.
func TestAMissingSetUpIsNamed(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		bare, err := sql.Open("pgx", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer bare.Close()
		_, err = leasepg.New(bare).Acquire(t.Context(), request("r", "A"))
		var setup *guard.SetupError
		if !errors.Is(err, guard.ErrSetup) || !errors.As(err, &setup) || setup.Remedy == "" {
			t.Errorf("acquire without the schema: %v", err)
		}

		db := open(t, "pgx", dsn, "", "")
		db.SetMaxOpenConns(1)
		role := fmt.Sprintf("sqlfence_nobody_%d", time.Now().UnixNano())
		for _, text := range []string{`CREATE ROLE ` + role, `GRANT USAGE ON SCHEMA sqlfence TO ` + role, `SET ROLE ` + role} {
			if _, err := db.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
		_, err = leasepg.New(db).Acquire(t.Context(), request("r", "A"))
		if !errors.Is(err, guard.ErrSetup) {
			t.Errorf("acquire without a privilege: %v", err)
		}
		for _, text := range []string{`RESET ROLE`, `DROP OWNED BY ` + role, `DROP ROLE ` + role} {
			if _, err := db.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
	})
}
