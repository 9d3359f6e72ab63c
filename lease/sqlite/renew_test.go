package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modernc.org/sqlite"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// hold makes n leases of owner "a", each under epoch 1, as if each had been acquired.
func hold(t testing.TB, q leasesqlite.Querier, n int) []lease.Claim {
	t.Helper()
	mustExec(t, q, `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO main.sqlfence_leases SELECT 'r' || i, 'a', 1, i, 4102444800000 FROM n`, n)
	mustExec(t, q, `INSERT INTO main.sqlfence_fences SELECT resource, epoch, grant_id FROM main.sqlfence_leases WHERE true`)
	claims := make([]lease.Claim, n)
	for i := range claims {
		claims[i] = lease.Claim{Token: guard.Token{Resource: fmt.Sprint("r", i+1), Epoch: 1, Grant: int64(i + 1)}, Owner: "a", TTL: time.Hour}
	}
	return claims
}

// handOut is a store that grants what is held already.
type handOut struct {
	*leasesqlite.Store
	claims map[string]lease.Claim
}

func (s handOut) Acquire(_ context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	return lease.Granted{Token: s.claims[req.Resource].Token, Expiry: time.Now().Add(req.TTL), TTL: req.TTL}, nil
}

// Renew asks for more than the manager did: its clock is a fake one here, SQLite's is
// not.
func (s handOut) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	longer := slices.Clone(claims)
	for i := range longer {
		longer[i].TTL = time.Hour
	}
	return s.Store.Renew(ctx, longer)
}

func TestTenThousandLeasesCostTwentyStatementsPerInterval(t *testing.T) {
	_, file := open(t)
	const many = 10_000
	synctest.Test(t, func(t *testing.T) {
		db, counted := openCounted(t, file)
		claims := hold(t, db, many)
		store := handOut{leasesqlite.New(db), make(map[string]lease.Claim, many)}
		const ttl = 30 * time.Second
		var renewed, lost atomic.Int64
		m, err := lease.NewManager(store, lease.TTL(ttl), lease.Owner("a"), lease.WithHooks(lease.Hooks{
			Renewed: func(leases, failed int, _ time.Duration, _ error) { renewed.Add(int64(leases - failed)) },
			Lost:    func(guard.Token, error) { lost.Add(1) },
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for _, c := range claims {
			store.claims[c.Token.Resource] = c
			l, err := m.TryAcquire(t.Context(), c.Token.Resource)
			if err != nil {
				t.Fatal(err)
			}
			l.KeepAlive(t.Context())
		}
		time.Sleep(ttl / 2) // the first renewal of each
		statements, before := counted.statements.Load(), renewed.Load()
		if before != many {
			t.Errorf("%d renewals in the first interval, expected one of each lease", before)
		}
		const intervals = 2
		time.Sleep(intervals * ttl / 3)
		per := (counted.statements.Load() - statements) / intervals
		if per > 20 || per < 2 {
			t.Errorf("%d statements per interval, expected at most 20", per)
		}
		if n := renewed.Load() - before; n != intervals*many {
			t.Errorf("%d renewals in %d intervals, expected each lease once in each", n, intervals)
		}
		if n := lost.Load(); n != 0 {
			t.Errorf("%d leases were lost", n)
		}
		t.Logf("%d statements per interval", per)
	})
}

// Of many claims each is judged for itself, and by one reading of the clock.
func TestLossesAmongManyRenewals(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		claims := hold(t, db, 2500)
		for i := range claims {
			c := &claims[i]
			switch i % 10 {
			case 1:
				c.Owner = "b"
			case 2:
				expire(t, db, c.Token.Resource)
			case 3:
				c.Token.Epoch++
			case 4:
				c.Token.Grant++
			case 5:
				mustExec(t, db, "UPDATE main.sqlfence_fences SET high_water = 2 WHERE resource = ?1", c.Token.Resource)
			case 6:
				c.Token.Resource += " that nobody has seen"
			case 7: // the first reason counts
				expire(t, db, c.Token.Resource)
				c.Owner, c.Token.Epoch = "b", 7
			case 8:
				expire(t, db, c.Token.Resource)
				c.Token.Epoch = 7
			case 9:
				c.TTL = 0
			}
		}
		want := []error{nil, lease.ErrNotOwner, lease.ErrLapsed, lease.ErrEpochMismatch, lease.ErrEpochMismatch,
			lease.ErrEpochMismatch, lease.ErrNotOwner, lease.ErrNotOwner, lease.ErrLapsed, lease.ErrInvalidInput}
		before := table(t, db, "WHERE grant_id % 10 <> 1")
		renewed, err := leasesqlite.New(db).Renew(t.Context(), claims)
		if err != nil || len(renewed) != len(claims) {
			t.Fatalf("%d results, error %v", len(renewed), err)
		}
		instants := map[time.Time]int{}
		for i, r := range renewed {
			if !errors.Is(r.Err, want[i%10]) {
				t.Fatalf("claim %d: expected %v, saw %v", i, want[i%10], r.Err)
			}
			if loss := (*lease.LossError)(nil); errors.As(r.Err, &loss) && (loss.Claim != claims[i] || loss.Op != "renew") {
				t.Fatalf("claim %d: the loss is about %+v", i, loss.Claim)
			}
			if r.Err == nil {
				instants[r.Expiry]++
			}
		}
		if len(instants) > 3 {
			t.Errorf("%d expiries of one TTL, expected one from each statement", len(instants))
		}
		if after := table(t, db, "WHERE grant_id % 10 <> 1"); after != before {
			t.Error("a renewal that was refused has changed something")
		}
	})
}

// table is all leases that a condition selects, as text.
func table(t *testing.T, q leasesqlite.Querier, where string) string {
	t.Helper()
	var all sql.NullString
	err := q.QueryRowContext(t.Context(), `SELECT group_concat(line, x'0a') FROM (
		SELECT quote(resource) || quote(owner) || epoch || ' ' || grant_id || ' ' || quote(expires_at) AS line
		FROM main.sqlfence_leases `+where+` ORDER BY resource)`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all.String
}

func TestTheSameLeaseTwiceInABatch(t *testing.T) {
	db, _ := open(t)
	claims := hold(t, db, 3)
	forged := claims[1]
	forged.Token.Epoch++
	longer := claims[1]
	longer.TTL = 2 * time.Hour
	batch := []lease.Claim{claims[1], claims[0], longer, forged, claims[2]}
	renewed, err := leasesqlite.New(db).Renew(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range renewed {
		if i == 3 {
			if !errors.Is(r.Err, lease.ErrEpochMismatch) {
				t.Errorf("the forged claim: expected ErrEpochMismatch, saw %v", r.Err)
			}
		} else if r.Err != nil {
			t.Errorf("claim %d: %v", i, r.Err)
		}
	}
	state, err := leasesqlite.New(db).Inspect(t.Context(), "r2")
	if err != nil || !state.Expiry.Equal(renewed[2].Expiry) {
		t.Errorf("expected the expiry of the last renewal, %v, saw %v, %v", renewed[2].Expiry, state.Expiry, err)
	}
}

// A SQLite may have been built or set to take fewer parameters than by default.
func TestRenewalsBelowALimitOfParameters(t *testing.T) {
	db, _ := open(t)
	claims := hold(t, db, 1200)
	claims[700].Owner = "b"
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const limitVariableNumber = 9 // SQLITE_LIMIT_VARIABLE_NUMBER
	for _, limit := range []int{999, sqlgen.SQLiteRenewParams} {
		if _, err := sqlite.Limit(conn, limitVariableNumber, limit); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ExecContext(t.Context(), sqlgen.SQLiteLeaseRenew(limit/sqlgen.SQLiteRenewParams+1)); err == nil ||
			!strings.Contains(err.Error(), "too many SQL variables") {
			t.Fatalf("a statement above the limit: expected an error, saw %v", err)
		}
		renewed, err := leasesqlite.New(conn).Renew(t.Context(), claims)
		if err != nil {
			t.Fatalf("limit %d: %v", limit, err)
		}
		for i, r := range renewed {
			if i == 700 {
				if !errors.Is(r.Err, lease.ErrNotOwner) {
					t.Errorf("limit %d: expected ErrNotOwner, saw %v", limit, r.Err)
				}
			} else if r.Err != nil {
				t.Errorf("limit %d, claim %d: %v", limit, i, r.Err)
			}
		}
	}
}

// The claims are looked up among the leases, few or many, and the other way round never.
func TestRenewalsFindTheirRowsByThePrimaryKey(t *testing.T) {
	db, _ := open(t)
	plan := func(text string, params int) []string {
		t.Helper()
		rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, params)...)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var steps []string
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			steps = append(steps, step)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return steps
	}
	look := func(what string) {
		t.Helper()
		for _, n := range []int{1, 10, 1000} {
			for _, text := range []struct {
				text   string
				params int
				leases string
			}{
				{sqlgen.SQLiteLeaseRenew(n), n * sqlgen.SQLiteRenewParams, "h"},
				{sqlgen.SQLiteLeaseStates(n), n, "l"},
			} {
				steps := plan(text.text, text.params)
				for _, table := range []string{text.leases, "f"} {
					if !slices.ContainsFunc(steps, func(step string) bool {
						return strings.HasPrefix(step, "SEARCH "+table+" ") && strings.Contains(step, "PRIMARY KEY (resource=?)")
					}) {
						t.Errorf("%s, %d claims: %q does not find %s by its key", what, n, steps, table)
					}
				}
			}
		}
	}
	look("no lease")
	hold(t, db, 2)
	mustExec(t, db, "ANALYZE")
	look("two leases")
	mustExec(t, db, "DELETE FROM main.sqlfence_leases")
	mustExec(t, db, "DELETE FROM main.sqlfence_fences")
	hold(t, db, 3000)
	mustExec(t, db, "ANALYZE")
	look("many leases")
}

// Renewals in a transaction of the caller's are undone with it.
func TestManyRenewalsInACallersTransaction(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		claims := hold(t, db, 1500)
		claims[1400].Owner = "b"
		before := table(t, db, "")
		for _, commit := range []bool{false, true} {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // after its end it does nothing
			renewed, err := leasesqlite.New(tx).Renew(t.Context(), claims)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range renewed {
				if i == 1400 != errors.Is(r.Err, lease.ErrNotOwner) {
					t.Fatalf("claim %d: %v", i, r.Err)
				}
			}
			if !commit {
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				if after := table(t, db, ""); after != before {
					t.Error("a renewal outlived the rollback")
				}
				continue
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if after := table(t, db, "WHERE expires_at = 4102444800000"); strings.Count(after, "\n") != 0 || after == "" {
				t.Errorf("after the commit these have the expiry of before: %q, expected the refused one", after)
			}
		}
	})
}

func TestNothingOfTheUsersIsTakenForTheClaims(t *testing.T) { // SPEC G10
	db, _ := open(t)
	claims := hold(t, db, 3)
	claims[2].Owner = "b"
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, name := range []string{"sqlfence_c", "sqlfence_r", "c", "l", "r", "m", "f"} {
		mustExec(t, conn, "CREATE TEMP TABLE "+name+" (resource, owner, epoch, grant_id, ttl, expires_at, high_water, version, floor, only)")
		mustExec(t, conn, "CREATE TABLE main."+name+" (resource, owner, epoch, grant_id, ttl)")
	}
	for _, table := range []string{"meta", "leases", "fences"} {
		mustExec(t, conn, "CREATE TEMP TABLE sqlfence_"+table+" AS SELECT * FROM main.sqlfence_"+table+" WHERE false")
	}
	renewed, err := leasesqlite.New(conn).Renew(t.Context(), claims)
	if err != nil {
		t.Fatal(err)
	}
	if renewed[0].Err != nil || renewed[1].Err != nil || !errors.Is(renewed[2].Err, lease.ErrNotOwner) {
		t.Errorf("expected two renewals and ErrNotOwner, saw %v", renewed)
	}
}

// A renewal of many that is given up, at whatever moment, has renewed all or none.
func TestManyRenewalsThatAreGivenUp(t *testing.T) {
	file := testserver.SQLiteFile(t)
	db := openFile(t, file, walAndTimeout)
	if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	claims := hold(t, db, 2000)
	s := leasesqlite.New(db)
	for i := range 30 {
		before := table(t, db, "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*2*time.Millisecond)
		renewed, err := s.Renew(ctx, claims)
		cancel()
		if err == nil {
			for n, r := range renewed {
				if r.Err != nil {
					t.Fatalf("claim %d: %v", n, r.Err)
				}
			}
		} else if after := table(t, db, ""); after != before {
			t.Fatalf("%v, but something was renewed", err)
		}
	}
	if open := db.Stats().InUse; open != 0 {
		t.Errorf("expected every connection back in the pool, saw %d in use", open)
	}
}
