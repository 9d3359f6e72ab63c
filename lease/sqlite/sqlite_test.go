package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	sqlitedriver "github.com/sqlfence/sqlfence/driver/sqlite"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasesqlite "github.com/sqlfence/sqlfence/lease/sqlite"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestMain(m *testing.M) {
	holdtest.Contend(func(file string) (lease.Store, error) {
		db, err := sql.Open("sqlite", "file:"+file+walAndTimeout)
		return leasesqlite.New(db), err
	})
	leak.Main(m)
}

// options of a connection as programs set them.
const walAndTimeout = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"

// openFile opens another pool on the file, with the bare driver.
func openFile(t testing.TB, file, options string) *sql.DB {
	t.Helper()
	return openWith(t, "sqlite", file, options)
}

func openWith(t testing.TB, driver, file, options string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, "file:"+file+options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// open returns a pool on a fresh file with the schema, and the file.
func open(t testing.TB) (*sql.DB, string) {
	t.Helper()
	file := testserver.SQLiteFile(t)
	db := openFile(t, file, walAndTimeout)
	if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	return db, file
}

// eachDriver runs fn on a fresh file with the schema, opened with the bare
// driver and with the fenced one.
func eachDriver(t *testing.T, fn func(t *testing.T, db *sql.DB, file string)) {
	for _, driver := range []string{"sqlite", sqlitedriver.DriverName} {
		t.Run(driver, func(t *testing.T) {
			_, file := open(t)
			fn(t, openWith(t, driver, file, walAndTimeout), file)
		})
	}
}

func mustExec(t testing.TB, q leasesqlite.Querier, query string, args ...any) {
	t.Helper()
	if _, err := q.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func request(resource, owner string) lease.AcquireRequest {
	return lease.AcquireRequest{Resource: resource, Owner: owner, TTL: time.Minute, Wait: 10 * time.Second}
}

func mustAcquire(t testing.TB, s lease.Store, req lease.AcquireRequest) lease.Granted {
	t.Helper()
	g, err := s.Acquire(t.Context(), req)
	if err != nil {
		t.Fatalf("acquire of %q by %q: %v", req.Resource, req.Owner, err)
	}
	return g
}

// expire makes the lease lapse without waiting for it.
func expire(t testing.TB, q leasesqlite.Querier, resource string) {
	t.Helper()
	mustExec(t, q, "UPDATE main.sqlfence_leases SET expires_at = 1 WHERE resource = ?1", resource)
}

// row is the resource's rows as text, for "byte-identical" comparisons.
func row(t testing.TB, q leasesqlite.Querier, resource string) string {
	t.Helper()
	var l, f sql.NullString
	err := q.QueryRowContext(t.Context(), `SELECT
		(SELECT quote(owner) || ' ' || epoch || ' ' || grant_id || ' ' || quote(expires_at) FROM main.sqlfence_leases WHERE resource = ?1),
		(SELECT high_water || ' ' || grant_id FROM main.sqlfence_fences WHERE resource = ?1)`, resource).Scan(&l, &f)
	if err != nil {
		t.Fatal(err)
	}
	return l.String + " / " + f.String
}

// lockFile takes the write lock of the file, as any writer does, and returns
// what gives it back.
func lockFile(t testing.TB, file string) (unlock func()) {
	t.Helper()
	db := openFile(t, file, walAndTimeout)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, conn, "BEGIN IMMEDIATE")
	locked := true
	unlock = func() {
		if locked {
			locked = false
			mustExec(t, conn, "ROLLBACK")
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() { _ = conn.Close() })
	return unlock
}

func check(t testing.TB, q guard.Querier, token guard.Token) error {
	t.Helper()
	return guard.NewFence(q, sqlgen.SQLite).Check(t.Context(), token)
}

func TestTokensOfALoopGrowStrictly(t *testing.T) { // CASES D6 (a)
	db, _ := open(t)
	s := leasesqlite.New(db)
	last := int64(0)
	for range 1000 {
		g := mustAcquire(t, s, request("job", "a"))
		if g.Token.Epoch <= last || g.Token.Grant == 0 {
			t.Fatalf("after epoch %d expected a higher one and a grant, saw %v", last, g.Token)
		}
		last = g.Token.Epoch
		if err := s.Release(t.Context(), lease.Claim{Token: g.Token, Owner: "a"}, time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALapsedLeaseIsNotRenewed(t *testing.T) { // CASES D5
	db, _ := open(t)
	s := leasesqlite.New(db)
	g := mustAcquire(t, s, request("job", "a"))
	expire(t, db, "job")
	before := row(t, db, "job")
	claim := lease.Claim{Token: g.Token, Owner: "a", TTL: time.Minute}

	renewed, err := s.Renew(t.Context(), []lease.Claim{claim})
	if err != nil {
		t.Fatal(err)
	}
	if err := renewed[0].Err; !errors.Is(err, lease.ErrLapsed) || !errors.Is(err, lease.ErrLost) {
		t.Errorf("renewing: expected ErrLapsed and ErrLost, saw %v", err)
	}
	if err := s.Release(t.Context(), claim, 0); !errors.Is(err, lease.ErrLapsed) {
		t.Errorf("releasing: expected ErrLapsed, saw %v", err)
	}
	if after := row(t, db, "job"); after != before {
		t.Errorf("expected the rows untouched, %s, saw %s", before, after)
	}
	if again := mustAcquire(t, s, request("job", "a")); again.Token.Epoch <= g.Token.Epoch {
		t.Errorf("expected an epoch above %d, saw %d", g.Token.Epoch, again.Token.Epoch)
	}
}

func TestOnlyTheHolderRenewsAndReleases(t *testing.T) { // CASES D7
	db, _ := open(t)
	s := leasesqlite.New(db)
	older := mustAcquire(t, s, request("job", "a"))
	current := mustAcquire(t, s, request("job", "a"))
	before := row(t, db, "job")

	stranger := current.Token
	stranger.Grant++
	unknown := current.Token
	unknown.Resource = "never seen"
	tests := []struct {
		name  string
		claim lease.Claim
		want  error
	}{
		{"another owner", lease.Claim{Token: current.Token, Owner: "b"}, lease.ErrNotOwner},
		{"an older token", lease.Claim{Token: older.Token, Owner: "a"}, lease.ErrEpochMismatch},
		{"another grant", lease.Claim{Token: stranger, Owner: "a"}, lease.ErrEpochMismatch},
		{"an unknown resource", lease.Claim{Token: unknown, Owner: "a"}, lease.ErrNotOwner},
		{"no owner", lease.Claim{Token: current.Token}, lease.ErrInvalidInput},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.claim.TTL = time.Hour
			renewed, err := s.Renew(t.Context(), []lease.Claim{tt.claim})
			if err != nil || !errors.Is(renewed[0].Err, tt.want) {
				t.Errorf("renewing: expected %v, saw %v, %v", tt.want, err, renewed)
			}
			if err := s.Release(t.Context(), tt.claim, 0); !errors.Is(err, tt.want) {
				t.Errorf("releasing: expected %v, saw %v", tt.want, err)
			}
			if after := row(t, db, "job"); after != before {
				t.Errorf("expected the rows untouched, %s, saw %s", before, after)
			}
		})
	}
	if _, err := s.Acquire(t.Context(), request("job", "")); !errors.Is(err, lease.ErrInvalidInput) {
		t.Errorf("acquiring without an owner: expected ErrInvalidInput, saw %v", err)
	}
	if err := check(t, db, current.Token); err != nil {
		t.Errorf("expected the holder's token to pass, saw %v", err)
	}
}

func TestOneLostClaimDoesNotKeepTheOthersFromRenewal(t *testing.T) {
	db, _ := open(t)
	s := leasesqlite.New(db)
	claims := make([]lease.Claim, 4)
	for i := range claims {
		g := mustAcquire(t, s, request(fmt.Sprint("job-", i), "a"))
		claims[i] = lease.Claim{Token: g.Token, Owner: "a", TTL: time.Hour}
	}
	expire(t, db, "job-1")
	claims[2].Owner = ""
	renewed, err := s.Renew(t.Context(), claims)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, lease.ErrLapsed, lease.ErrInvalidInput, nil} {
		if !errors.Is(renewed[i].Err, want) {
			t.Errorf("claim %d: expected %v, saw %v", i, want, renewed[i].Err)
		}
		if left := time.Until(renewed[i].Expiry); want == nil && (left < 59*time.Minute || left > time.Hour) {
			t.Errorf("claim %d: expected an hour to be left, saw %v", i, left)
		}
	}
}

func TestTTLEdges(t *testing.T) { // CASES D14
	db, _ := open(t)
	s := leasesqlite.New(db)
	for _, ttl := range []time.Duration{0, -time.Second, 1, 999 * time.Microsecond, 1<<63 - 1, lease.MaxTTL + 1} {
		req := request("job", "a")
		req.TTL = ttl
		if _, err := s.Acquire(t.Context(), req); !errors.Is(err, lease.ErrInvalidInput) {
			t.Errorf("TTL %v: expected ErrInvalidInput, saw %v", ttl, err)
		}
	}
	if found := row(t, db, "job"); found != " / " {
		t.Fatalf("expected no row, saw %s", found)
	}
	for _, ttl := range []time.Duration{lease.MinTTL, 1500 * time.Microsecond, 500 * time.Millisecond, time.Hour, lease.MaxTTL} {
		req := request("job", "a")
		req.TTL = ttl
		before := serverNow(t, db)
		g := mustAcquire(t, s, req)
		after := serverNow(t, db)
		least, most := before.Add(ttl), after.Add(ttl+time.Millisecond)
		if g.Expiry.Before(least) || g.Expiry.After(most) {
			t.Errorf("TTL %v: expected an expiry from %v to %v, saw %v", ttl, least, most, g.Expiry)
		}
		renewed, err := s.Renew(t.Context(), []lease.Claim{{Token: g.Token, Owner: "a", TTL: time.Duration(0)}})
		if err != nil || !errors.Is(renewed[0].Err, lease.ErrInvalidInput) {
			t.Errorf("renewing for 0: expected ErrInvalidInput, saw %v, %v", err, renewed)
		}
	}
}

func serverNow(t testing.TB, q leasesqlite.Querier) time.Time {
	t.Helper()
	var ms int64
	err := q.QueryRowContext(t.Context(),
		"SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)").Scan(&ms)
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(ms)
}

// letPass waits until the file's clock shows that d has passed: the passing of
// time is the point of the case.
func letPass(t testing.TB, q leasesqlite.Querier, d time.Duration) {
	t.Helper()
	for end := serverNow(t, q).Add(d); serverNow(t, q).Before(end); {
		<-time.After(time.Until(end))
	}
}

func TestAnAcquireThatWaitedIsNotBornExpired(t *testing.T) { // CASES D13 (b)
	db, file := open(t)
	unlock := lockFile(t, file)
	req := request("job", "a")
	req.TTL = 300 * time.Millisecond
	granted := make(chan lease.Granted)
	go func() {
		g, err := leasesqlite.New(db).Acquire(context.WithoutCancel(t.Context()), req)
		if err != nil {
			t.Error(err)
		}
		granted <- g
	}()
	letPass(t, openFile(t, file, walAndTimeout), 2*req.TTL)
	released := serverNow(t, db)
	unlock()
	if g := <-granted; g.Expiry.Before(released.Add(req.TTL)) {
		t.Errorf("expected an expiry %v after %v, saw %v", req.TTL, released, g.Expiry)
	}
}

func TestTheClockDoesNotStopInACallersTransaction(t *testing.T) { // CASES D13 (c)
	db, _ := open(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // after the commit it does nothing
	s := leasesqlite.New(tx)
	mustAcquire(t, s, request("other", "a"))
	begun := serverNow(t, tx)
	letPass(t, tx, 100*time.Millisecond)
	req := request("job", "a")
	req.TTL = 50 * time.Millisecond
	if g := mustAcquire(t, s, req); g.Expiry.Before(begun.Add(150 * time.Millisecond)) {
		t.Errorf("expected an expiry 150ms after %v, saw %v", begun, g.Expiry)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestNamesAreComparedByteForByte(t *testing.T) { // CASES D37
	db, _ := open(t)
	s := leasesqlite.New(db)
	names := []string{"Job", "job", "jób", "jo\u0301b", "job ", " job", "job\t", "1", "01", "1.0", "%", "'", "日本"}
	for _, name := range names {
		g := mustAcquire(t, s, request(name, "owner of "+name))
		if g.Token.Epoch != 1 {
			t.Errorf("%q: expected a resource of its own with epoch 1, saw %d", name, g.Token.Epoch)
		}
	}
	for _, name := range names {
		state, err := s.Inspect(t.Context(), name)
		if err != nil || state.Owner != "owner of "+name || state.Status != lease.Held {
			t.Errorf("%q: expected it held by its owner, saw %+v, %v", name, state, err)
		}
	}
	long := string(make([]byte, 300))
	for _, name := range []string{"", long, "a\x00b", "\xff"} {
		if _, err := s.Acquire(t.Context(), request(name, "a")); !errors.Is(err, lease.ErrInvalidInput) {
			t.Errorf("%q: expected ErrInvalidInput, saw %v", name, err)
		}
	}
}

func TestTwoHandlesOfOneOwnerNeverHoldOneToken(t *testing.T) { // CASES D37
	db, _ := open(t)
	s := leasesqlite.New(db)
	tokens := make(chan guard.Token, 2)
	for range cap(tokens) {
		go func() {
			g, err := s.Acquire(context.WithoutCancel(t.Context()), request("job", "a"))
			if err != nil {
				t.Error(err)
			}
			tokens <- g.Token
		}()
	}
	x, y := <-tokens, <-tokens
	if x.Epoch == y.Epoch || x.Grant == y.Grant {
		t.Errorf("expected two tokens, saw %v and %v", x, y)
	}
}

func TestReentry(t *testing.T) {
	db, _ := open(t)
	s := leasesqlite.New(db)
	first := mustAcquire(t, s, request("job", "a"))

	req := request("job", "a")
	req.Reentry = lease.ReentryRefuse
	var held *lease.HeldError
	if _, err := s.Acquire(t.Context(), req); !errors.As(err, &held) || held.Holder != "a" || held.Remaining <= 0 {
		t.Errorf("refusing: expected a denial that names a, saw %v", err)
	}

	req.Reentry, req.TTL = lease.ReentryExtend, time.Hour
	if g := mustAcquire(t, s, req); g.Token != first.Token || time.Until(g.Expiry) < 59*time.Minute {
		t.Errorf("extending: expected %v for an hour, saw %v until %v", first.Token, g.Token, g.Expiry)
	}
	if _, err := s.Acquire(t.Context(), request("job", "b")); !errors.As(err, &held) || held.Holder != "a" {
		t.Errorf("expected b to be denied, saw %v", err)
	}

	// An Advance past the lease ends it: extending then takes a new epoch.
	ahead := guard.Token{Resource: "job", Epoch: first.Token.Epoch + 10}
	if err := guard.NewFence(db, sqlgen.SQLite).Advance(t.Context(), ahead); err != nil {
		t.Fatal(err)
	}
	renewed, err := s.Renew(t.Context(), []lease.Claim{{Token: first.Token, Owner: "a", TTL: time.Minute}})
	if err != nil || !errors.Is(renewed[0].Err, lease.ErrEpochMismatch) {
		t.Errorf("renewing behind the mark: expected ErrEpochMismatch, saw %v, %v", err, renewed)
	}
	if g := mustAcquire(t, s, req); g.Token.Epoch != ahead.Epoch+1 {
		t.Errorf("expected epoch %d, saw %d", ahead.Epoch+1, g.Token.Epoch)
	}
	expire(t, db, "job")
	if g := mustAcquire(t, s, req); g.Token.Epoch != ahead.Epoch+2 {
		t.Errorf("after the lapse: expected epoch %d, saw %d", ahead.Epoch+2, g.Token.Epoch)
	}
}

func TestAReleaseClosesTheOldEpochToEveryToken(t *testing.T) {
	db, _ := open(t)
	s := leasesqlite.New(db)
	g := mustAcquire(t, s, request("job", "a"))
	claim := lease.Claim{Token: g.Token, Owner: "a", TTL: time.Minute}
	if err := s.Release(t.Context(), claim, 0); err != nil {
		t.Fatal(err)
	}
	if err := check(t, db, g.Token); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("expected the released token to be fenced, saw %v", err)
	}
	for _, guess := range []guard.Token{{Epoch: 2}, {Epoch: 2, Grant: g.Token.Grant}} {
		guess.Resource = "job"
		if err := check(t, db, guess); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("%v: expected it to be fenced, saw %v", guess, err)
		}
	}
	state, err := s.Inspect(t.Context(), "job")
	if want := (lease.State{Resource: "job", Epoch: 2, HighWater: 2}); err != nil || state != want {
		t.Errorf("expected %+v, saw %+v, %v", want, state, err)
	}
	if err := s.Release(t.Context(), claim, 0); !errors.Is(err, lease.ErrNotOwner) {
		t.Errorf("releasing twice: expected ErrNotOwner, saw %v", err)
	}
	if g := mustAcquire(t, s, request("job", "b")); g.Token.Epoch != 3 {
		t.Errorf("expected epoch 3, saw %d", g.Token.Epoch)
	}
}

func TestADeniedAcquireNeitherWaitsNorWrites(t *testing.T) {
	db, file := open(t)
	s := leasesqlite.New(db)
	mustAcquire(t, s, request("job", "a"))
	before := row(t, db, "job")
	lockFile(t, file) // until the end of the test
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() {
		_, err := s.Acquire(ctx, request("other", "a"))
		waiting <- err
	}()
	defer func() {
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("waiting: expected the context's error, saw %v", err)
		}
	}()
	for db.Stats().InUse == 0 { // until it waits
		runtime.Gosched()
	}
	req := request("job", "b")
	req.Wait = 0
	var held *lease.HeldError
	if _, err := s.Acquire(t.Context(), req); !errors.As(err, &held) || held.Holder != "a" || held.Remaining > time.Minute {
		t.Errorf("expected a denial that names a, saw %v", err)
	}
	if after := row(t, db, "job"); after != before {
		t.Errorf("expected the rows untouched, %s, saw %s", before, after)
	}
	if state, err := s.Inspect(t.Context(), "job"); err != nil || state.Status != lease.Held || state.Remaining <= 0 {
		t.Errorf("expected to see it held while somebody writes, saw %+v, %v", state, err)
	}
}

func TestTheFloorBindsMintedEpochs(t *testing.T) {
	db, _ := open(t)
	s := leasesqlite.New(db)
	mustExec(t, db, "UPDATE main.sqlfence_meta SET floor = 41")
	if g := mustAcquire(t, s, request("job", "a")); g.Token.Epoch != 42 {
		t.Errorf("expected epoch 42, saw %d", g.Token.Epoch)
	}
}

func TestEpochsEndWithAnError(t *testing.T) {
	db, _ := open(t)
	s := leasesqlite.New(db)
	fence := guard.NewFence(db, sqlgen.SQLite)
	if err := fence.Advance(t.Context(), guard.Token{Resource: "job", Epoch: 1<<63 - 2, Grant: 1}); err != nil {
		t.Fatal(err)
	}
	g := mustAcquire(t, s, request("job", "a"))
	if g.Token.Epoch != 1<<63-1 {
		t.Fatalf("expected the last epoch, saw %d", g.Token.Epoch)
	}
	before := row(t, db, "job")
	claim := lease.Claim{Token: g.Token, Owner: "a", TTL: time.Minute}
	if err := s.Release(t.Context(), claim, 0); !errors.Is(err, lease.ErrExhausted) {
		t.Errorf("releasing: expected ErrExhausted, saw %v", err)
	}
	if _, err := s.Acquire(t.Context(), request("job", "a")); !errors.Is(err, lease.ErrExhausted) {
		t.Errorf("acquiring: expected ErrExhausted, saw %v", err)
	}
	if renewed, err := s.Renew(t.Context(), []lease.Claim{claim}); err != nil || renewed[0].Err != nil {
		t.Errorf("renewing: expected success, saw %v, %v", err, renewed)
	}
	expire(t, db, "job")
	if _, err := s.Acquire(t.Context(), request("job", "b")); !errors.Is(err, lease.ErrExhausted) {
		t.Errorf("taking over: expected ErrExhausted, saw %v", err)
	}
	if err := check(t, db, g.Token); err != nil {
		t.Errorf("expected the last token still to pass, saw %v (%s before)", err, before)
	}

	// The file itself refuses what SQLite would make a REAL.
	for _, statement := range []string{
		"UPDATE main.sqlfence_leases SET epoch = epoch + 1",
		"UPDATE main.sqlfence_fences SET high_water = high_water + 1",
		"UPDATE main.sqlfence_fences SET grant_id = 0.5",
		"UPDATE main.sqlfence_fences SET resource = x'6a6f62'",
		"UPDATE main.sqlfence_meta SET floor = 9223372036854775807 + 1",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s: expected the file to refuse it", statement)
		}
	}
}

func TestATemporaryTableCannotStandInForTheFence(t *testing.T) { // SPEC G10
	db, _ := open(t)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, table := range []string{"meta", "leases", "fences"} {
		mustExec(t, conn, "CREATE TEMP TABLE sqlfence_"+table+" AS SELECT * FROM main.sqlfence_"+table)
	}
	s := leasesqlite.New(conn)
	old := mustAcquire(t, s, request("job", "a"))
	expire(t, conn, "job")
	current := mustAcquire(t, s, request("job", "b"))
	mustExec(t, conn, "INSERT INTO temp.sqlfence_fences (resource, high_water, grant_id) VALUES ('job', ?1, ?2)", old.Token.Epoch, old.Token.Grant)
	if err := check(t, conn, old.Token); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("expected the old token to be fenced, saw %v", err)
	}
	if err := check(t, db, current.Token); err != nil {
		t.Errorf("expected the new token to pass on another connection, saw %v", err)
	}
}

func TestAnUnpreparedFileIsASetupError(t *testing.T) {
	db := openFile(t, testserver.SQLiteFile(t), walAndTimeout)
	s := leasesqlite.New(db)
	token := guard.Token{Resource: "job", Epoch: 1, Grant: 1}
	_, acquireErr := s.Acquire(t.Context(), request("job", "a"))
	_, renewErr := s.Renew(t.Context(), []lease.Claim{{Token: token, Owner: "a", TTL: time.Minute}})
	releaseErr := s.Release(t.Context(), lease.Claim{Token: token, Owner: "a"}, 0)
	_, inspectErr := s.Inspect(t.Context(), "job")
	for i, err := range []error{acquireErr, renewErr, releaseErr, inspectErr} {
		if !errors.Is(err, guard.ErrSetup) {
			t.Errorf("operation %d: expected a set-up error, saw %v", i, err)
		}
	}
	if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "UPDATE main.sqlfence_meta SET version = 2")
	if _, err := s.Acquire(t.Context(), request("job", "a")); !errors.Is(err, guard.ErrSetup) {
		t.Errorf("another version: expected a set-up error, saw %v", err)
	}
}
