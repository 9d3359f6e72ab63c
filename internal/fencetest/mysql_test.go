package fencetest

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// mysqlForm is a guarded write to the row id=1 of table d, with the arguments that
// come before and behind the token's.
type mysqlForm struct {
	name, write string
	absent      bool // the row does not exist, and another session is inserting it
	key         bool // names the row by its key: MySQL may lock that before it asks the fence
}

var mysqlForms = []mysqlForm{
	{name: "UPDATE", write: "UPDATE d SET v = 'stale' WHERE id = 1", key: true},
	{name: "UPDATE of a range", write: "UPDATE d SET v = 'stale' WHERE id <= 1"},
	{name: "UPDATE of several tables", write: "UPDATE d JOIN e ON e.id = d.id SET d.v = 'stale' WHERE d.id = 1", key: true},
	{name: "DELETE", write: "DELETE FROM d WHERE id = 1", key: true},
	{name: "DELETE of a range", write: "DELETE FROM d WHERE id <= 1"},
	{name: "INSERT", write: "INSERT INTO d (id, v) VALUES (1, 'stale')", absent: true},
	{name: "REPLACE", write: "REPLACE INTO d (id, v) VALUES (1, 'stale')"},
}

// guarded returns the text with the fence of one token in it.
func guarded(t *testing.T, text string) string {
	t.Helper()
	spliced, err := sqlgen.Analyze(sqlgen.MySQL, text).Guarded(1)
	if err != nil {
		t.Fatal(err)
	}
	return spliced
}

var mysqlIsolations = []string{
	"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
	// MariaDB: a locking read of what has changed since the snapshot is error 1020.
	"SET SESSION innodb_snapshot_isolation = ON",
}

// openMySQL creates the tables that are written to, and returns the isolation levels
// that the server has.
func openMySQL(t *testing.T, dsn string) (*MySQL, []string) {
	t.Helper()
	d := OpenMySQL(t, dsn)
	s := d.Session("CREATE TABLE d (id INT PRIMARY KEY, v VARCHAR(40)) ENGINE = InnoDB",
		"CREATE TABLE e (id INT PRIMARY KEY) ENGINE = InnoDB", "INSERT INTO e VALUES (1)")
	levels := mysqlIsolations
	if _, err := s.Exec(levels[len(levels)-1]); err != nil {
		levels = levels[:len(levels)-1]
	}
	return d, levels
}

// resetMySQL gives d its row, or not, and resource r a valid token of owner A.
func resetMySQL(s *MySQLSession, absent bool) guard.Token {
	s.Must("DELETE FROM d")
	if !absent {
		s.Must("INSERT INTO d VALUES (1, 'before')")
	}
	s.db.Lapse("r")
	return s.Acquire("r", "A")
}

func (d *MySQL) value() (v string) {
	d.t.Helper()
	if err := d.DB.QueryRow("SELECT IFNULL((SELECT v FROM d WHERE id = 1), 'none')").Scan(&v); err != nil {
		d.t.Fatal(err)
	}
	return v
}

// mustBeRefused fails unless a write has come to nothing because of the fence.
func (s *MySQLSession) mustBeRefused(token guard.Token, affected int64, err error) {
	s.t.Helper()
	if Number(err) == 1020 { // a serialization failure; the transaction is over
		s.Must("ROLLBACK")
	} else if err != nil && Number(err) != 1242 || affected != 0 { // 1242: how rows of VALUES are refused
		s.t.Fatalf("the stale write: %d rows, %v; want none", affected, err)
	}
	err = guard.NewFence(s.conn, sqlgen.MySQL).Check(s.t.Context(), token)
	if Number(err) == 1020 {
		s.Must("ROLLBACK")
		err = guard.NewFence(s.conn, sqlgen.MySQL).Check(s.t.Context(), token)
	}
	if !errors.Is(err, guard.ErrFenced) {
		s.t.Fatalf("asking the fence afterwards: %v, want fenced", err)
	}
}

// A write of the old owner waits for a row, and the takeover for that write: it was
// checked first. Once the takeover has returned, the next write is refused. Where
// MySQL asks the fence behind the row, the takeover does not wait, and that very write
// is refused.
func TestOnMySQLAWriteThatWaitsForARowHoldsTheTakeoverUp(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d, levels := openMySQL(t, dsn)
		for _, level := range levels {
			for _, f := range mysqlForms {
				t.Run(level+"/"+f.name, func(t *testing.T) {
					d.t = t
					old, other, next := d.Session(level), d.Session(), d.Session()
					token := resetMySQL(next, f.absent)
					args := []any{sqlgen.ResourceParam(sqlgen.MySQL, token.Resource), token.Epoch, token.Grant}
					write := guarded(t, f.write)
					other.Must("BEGIN")
					if f.absent {
						other.Must("INSERT INTO d VALUES (1, 'other')")
					} else {
						other.Must("UPDATE d SET v = 'other' WHERE id = 1")
					}
					old.Start(write, args...)
					old.MustBlock()
					d.Lapse("r")
					next.Start(MySQLAcquire, "r", "B")
					if f.key && !d.mariaDB() && !next.blocks() {
						if _, err := next.Wait(); err != nil {
							t.Fatalf("takeover: %v", err)
						}
						other.Must("ROLLBACK")
						affected, err := old.Wait()
						old.mustBeRefused(token, affected, err)
						if v := d.value(); v != "before" {
							t.Fatalf("d holds %q after a refused write", v)
						}
						return
					}
					next.MustBlock()
					other.Must("ROLLBACK")
					if n, err := old.Wait(); err != nil || n == 0 {
						t.Fatalf("the owner's write, before the takeover: %d rows, %v", n, err)
					}
					if _, err := next.Wait(); err != nil {
						t.Fatalf("takeover: %v", err)
					}
					before := d.value()
					affected, err := old.Exec(write, args...)
					old.mustBeRefused(token, affected, err)
					if v := d.value(); v != before {
						t.Fatalf("d holds %q after a refused write, not %q", v, before)
					}
				})
			}
		}
	})
}

// A write of the old owner waits for a takeover that is under way, whatever its
// transaction has seen before, and finds the new mark.
func TestOnMySQLAWriteThatWaitsForATakeoverIsRefused(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d, levels := openMySQL(t, dsn)
		for _, level := range levels {
			for _, f := range mysqlForms {
				t.Run(level+"/"+f.name, func(t *testing.T) {
					d.t = t
					old, next := d.Session(level), d.Session()
					token := resetMySQL(next, f.absent)
					args := []any{sqlgen.ResourceParam(sqlgen.MySQL, token.Resource), token.Epoch, token.Grant}
					before := d.value()
					old.Must("BEGIN")
					var seen int
					old.Get("SELECT COUNT(*) FROM e, sqlfence_guard", nil, &seen) // the snapshot
					old.Must("COMMIT")                                            // SERIALIZABLE has locked the fence with that
					old.Must("BEGIN")
					old.Get("SELECT COUNT(*) FROM e", nil, &seen)
					d.Lapse("r")
					next.Must("BEGIN")
					next.Acquire("r", "B")
					old.Start(guarded(t, f.write), args...)
					waited := old.blocks()
					next.Must("COMMIT")
					affected, err := old.Wait()
					if !waited && Number(err) != 1020 { // MariaDB 11.4 sees by the lock that its snapshot is old
						t.Fatalf("the stale write did not wait for the takeover: %d rows, %v", affected, err)
					}
					old.mustBeRefused(token, affected, err)
					old.Must("ROLLBACK")
					if v := d.value(); v != before {
						t.Fatalf("d holds %q after a refused write, not %q", v, before)
					}
				})
			}
		}
	})
}

// The control: without the lock, the write is checked against the old mark, waits
// for a row, and lands after the takeover has returned.
func TestOnMySQLAPredicateWithoutTheLockLetsTheStaleWriteLand(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d, levels := openMySQL(t, dsn)
		old, other, next := d.Session(levels[0]), d.Session(), d.Session()
		token := resetMySQL(next, false)
		other.Must("BEGIN")
		other.Must("UPDATE d SET v = 'other' WHERE id = 1")
		old.Start("UPDATE d SET v = 'stale' WHERE EXISTS (SELECT 1 FROM sqlfence_guard AS g WHERE g.resource = ? AND g.high_water = ? AND g.grant_id = ?) AND id <= 1",
			token.Resource, token.Epoch, token.Grant)
		old.MustBlock()
		d.Lapse("r")
		next.Acquire("r", "B") // does not wait
		other.Must("ROLLBACK")
		if n, err := old.Wait(); err != nil || n != 1 || d.value() != "stale" {
			t.Errorf("the naive stale write: %d rows, %v, d holds %q; if it were refused, the lock would not be needed", n, err, d.value())
		}
	})
}

// G2, G3: 16 writers keep guarded transactions of 20 ms open without a pause, and
// go on when they are stale. A takeover waits for those that were open when it
// began and not for later ones, and renewals do not wait at all.
func TestOnMySQLATakeoverIsBoundedAndRenewalsAreNot(t *testing.T) {
	const (
		writers     = 16
		takeovers   = 10
		takeoverMax = 500 * time.Millisecond
		renewalMax  = 250 * time.Millisecond
	)
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d, _ := openMySQL(t, dsn)
		for i := range writers {
			d.Session().Must("INSERT INTO d VALUES (?, 'before')", i+1)
		}
		store := leasemysql.New(d.DB)
		request := lease.AcquireRequest{Resource: "r", Owner: "A", TTL: time.Minute, Wait: 20 * time.Second}
		granted, err := store.Acquire(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}

		var mu sync.Mutex // token, the counts
		token := granted.Token
		stop := make(chan struct{})
		var work sync.WaitGroup
		var passed, fenced int
		for i := range writers {
			s := d.Session()
			write := guarded(t, "UPDATE d SET v = RAND() * 1000000000 WHERE id = "+strconv.Itoa(i+1))
			work.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					mu.Lock()
					held := token
					mu.Unlock()
					// Two writes with the same token, however old it has become.
					for range 2 {
						var n int64
						_, err := s.Exec("BEGIN")
						if err == nil {
							n, err = s.Exec(write, sqlgen.ResourceParam(sqlgen.MySQL, held.Resource), held.Epoch, held.Grant)
						}
						if err == nil && n > 0 {
							_, err = s.Exec("DO SLEEP(0.02)")
						}
						if _, commit := s.Exec("COMMIT"); err == nil {
							err = commit
						}
						mu.Lock()
						switch {
						case err != nil:
							t.Errorf("guarded transaction: %v", err)
						case n > 0:
							passed++
						default:
							fenced++
						}
						mu.Unlock()
					}
				}
			})
		}

		var renewals []time.Duration
		renewed := make(chan struct{})
		other := request
		other.Resource = "other"
		kept, err := store.Acquire(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(renewed)
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Of the contended resource and of another one in one batch, whatever
				// the first is worth.
				mu.Lock()
				held := token
				mu.Unlock()
				start := time.Now()
				outcomes, err := store.Renew(t.Context(), []lease.Claim{
					{Token: held, Owner: "A", TTL: time.Minute}, {Token: kept.Token, Owner: "A", TTL: time.Minute},
				})
				if err != nil || outcomes[1].Err != nil {
					t.Errorf("renewal: %v, %v", outcomes, err)
					return
				}
				renewals = append(renewals, time.Since(start))
			}
		}()

		var waits []time.Duration
		count := func() int { mu.Lock(); defer mu.Unlock(); return passed + fenced }
		for range takeovers {
			// Let the writers write under the token they have.
			for before := count(); count() < before+2*writers; {
				d.waiting("") // a round trip, as a pause
			}
			start := time.Now()
			won, err := store.Acquire(t.Context(), request)
			if err != nil {
				t.Errorf("takeover: %v", err)
				break
			}
			waits = append(waits, time.Since(start))
			mu.Lock()
			token = won.Token
			mu.Unlock()
		}
		close(stop)
		work.Wait()
		<-renewed
		slices.Sort(waits)
		slices.Sort(renewals)
		if len(waits) == 0 || len(renewals) == 0 {
			t.FailNow()
		}
		t.Logf("takeovers: median %v, longest %v; %d renewals: median %v, longest %v; %d guarded transactions passed, %d fenced",
			waits[len(waits)/2], waits[len(waits)-1], len(renewals), renewals[len(renewals)/2], renewals[len(renewals)-1], passed, fenced)
		bounded(t, "takeover", waits, takeoverMax)
		bounded(t, "renewal", renewals, renewalMax)
		if passed == 0 || fenced == 0 {
			t.Errorf("%d guarded transactions passed and %d were fenced: the load was not what it should be", passed, fenced)
		}
	})
}
