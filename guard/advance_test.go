package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// occupied is a database in which a guarded transaction is open.
type occupied struct {
	database
	db    *sql.DB
	fence *guard.Fence
	tx    *sql.Tx
	old   guard.Token // its token
	next  guard.Token
}

func occupy(t *testing.T, d database) *occupied {
	t.Helper()
	db := d.migrated(t)
	o := &occupied{
		database: d, db: db, fence: guard.NewFence(db, d.engine),
		old: guard.Token{Resource: "r", Epoch: 1, Grant: 1}, next: guard.Token{Resource: "r", Epoch: 2, Grant: 2},
	}
	mustExec(t, db, "CREATE TABLE d (v INT)")
	mustAdvance(t, o.fence, o.old)
	o.tx = begin(t, db)
	mustExec(t, o.tx, "INSERT INTO d VALUES (1)") // SQLite has its lock, and MariaDB tells it from others
	if err := guard.NewFence(o.tx, d.engine).Check(t.Context(), o.old); err != nil {
		t.Fatal(err)
	}
	return o
}

// waiting returns how many sessions wait for the fence, on the servers.
func (o *occupied) waiting(t *testing.T) (n int) {
	t.Helper()
	text := map[sqlgen.Engine]string{
		sqlgen.PostgreSQL: "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
		sqlgen.MySQL:      "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE '%INTO o\\_mark%' AND info NOT LIKE '%processlist%'",
	}[o.engine]
	if err := o.db.QueryRowContext(context.Background(), text).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (o *occupied) untilWaiting(t *testing.T, n int) {
	t.Helper()
	if o.engine == sqlgen.SQLite {
		return // it polls, and nobody sees that
	}
	for deadline := time.Now().Add(30 * time.Second); o.waiting(t) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %d sessions wait for the fence", n)
		}
	}
}

// mustStay ends the open transaction, and fails unless the mark is where it was.
func (o *occupied) mustStay(t *testing.T) {
	t.Helper()
	if err := o.tx.Commit(); err != nil {
		t.Errorf("the guarded transaction: %v", err)
	}
	o.untilWaiting(t, 0)
	if mark, err := o.fence.HighWater(t.Context(), "r"); err != nil || mark != o.old.Epoch {
		t.Errorf("the mark is %d (%v), want %d as before", mark, err, o.old.Epoch)
	}
	mustAdvance(t, o.fence, o.next) // the control
}

func TestAnAdvanceThatIsBlockedSaysByWhom(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		o := occupy(t, d)
		for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
			err := o.fence.AdvanceWithin(t.Context(), o.next, wait)
			var blocked *guard.BlockedError
			if !errors.As(err, &blocked) || !errors.Is(err, guard.ErrBlocked) || !errors.Is(err, guard.ErrTimeout) {
				t.Fatalf("within %v: %v, want a *guard.BlockedError", wait, err)
			}
			if blocked.Resource != "r" || blocked.Wait != wait {
				t.Errorf("within %v: %+v", wait, blocked)
			}
			// SQLite cannot tell, and MySQL tells only whom a waiting one waits for.
			if named := len(blocked.Blockers) == 1; named != (d.engine == sqlgen.PostgreSQL || d.engine == sqlgen.MySQL && wait > 0) {
				t.Errorf("within %v the blockers are %v", wait, blocked.Blockers)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := o.fence.AdvanceWithin(ctx, o.next, time.Minute); !errors.Is(err, guard.ErrBlocked) {
			t.Errorf("with a deadline: %v, want ErrBlocked before it", err)
		}
		if err := o.fence.AdvanceWithin(t.Context(), o.next, -1); !errors.Is(err, guard.ErrInvalidInput) {
			t.Errorf("a negative wait: %v", err)
		}
		o.mustStay(t)
	})
}

func TestAnAdvanceThatIsGivenUpNeverMovesTheMark(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		o := occupy(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() { done <- o.fence.AdvanceWithin(ctx, o.next, time.Minute) }()
		o.untilWaiting(t, 1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the Advance that was given up: %v", err)
		}
		o.mustStay(t)
	})
}

// behindProxy returns the database as one that sends each statement as one message.
func (d database) behindProxy(t *testing.T) (*testserver.Proxy, database) {
	t.Helper()
	if d.engine == sqlgen.MySQL {
		config, err := mysql.ParseDSN(d.dsn)
		if err != nil {
			t.Fatal(err)
		}
		proxy := testserver.NewProxy(t, config.Addr)
		config.Addr, config.InterpolateParams = proxy.Addr(), true
		d.dsn = config.FormatDSN()
		return proxy, d
	}
	proxy, dsn := testserver.NewProxyDSN(t, d.dsn)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", "exec")
	u.RawQuery = q.Encode()
	d.dsn = u.String()
	return proxy, d
}

// The server goes on waiting for the fence where its client is lost.
func TestAnAdvanceWhoseConnectionIsLostNeverMovesTheMark(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		if d.engine == sqlgen.SQLite {
			return // it has none
		}
		o := occupy(t, d)
		proxy, through := d.behindProxy(t)
		done := make(chan error)
		f := guard.NewFence(through.open(t), d.engine)
		go func() { done <- f.AdvanceWithin(t.Context(), o.next, time.Minute) }()
		o.untilWaiting(t, 1)
		proxy.Cut()
		proxy.Restore()
		if err := <-done; err == nil || errors.Is(err, guard.ErrBlocked) || strings.Contains(err.Error(), "withdrawn") {
			t.Errorf("the Advance whose connection was lost: %v", err)
		}
		o.mustStay(t)
	})
}

// What was sent may arrive when its client was told long since that it is lost.
func TestAnAdvanceThatArrivesLateNeverMovesTheMark(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		if d.engine == sqlgen.SQLite {
			return // nothing is on its way there
		}
		for _, lost := range []bool{false, true} { // false is the control: what is held back does raise the mark
			resource := map[bool]string{false: "in time", true: "late"}[lost]
			t.Run(resource, func(t *testing.T) {
				direct := guard.NewFence(d.migrated(t), d.engine)
				old := guard.Token{Resource: resource, Epoch: 1, Grant: 1}
				next := guard.Token{Resource: resource, Epoch: 2, Grant: 2}
				mustAdvance(t, direct, old)
				proxy, through := d.behindProxy(t)
				db := through.open(t)
				if err := db.PingContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				caught, pass := proxy.HoldNext()
				done := make(chan error, 1)
				go func() { done <- guard.NewFence(db, d.engine).Advance(t.Context(), next) }()
				<-caught
				// That asks whether the connection lives (pgx), or for its number (MySQL).
				first := pass
				caught, pass = proxy.HoldNext()
				first()
				<-caught
				want := next.Epoch
				if lost {
					want = old.Epoch
					proxy.HangUp()
					if err := <-done; err == nil || strings.Contains(err.Error(), "withdrawn") {
						t.Errorf("the Advance whose connection was lost: %v", err)
					}
				}
				pass()
				if !lost {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if mark, err := direct.HighWater(t.Context(), resource); err != nil || mark != want {
					t.Errorf("the mark is %d (%v), want %d", mark, err, want)
				}
			})
		}
	})
}

// The connection is lost while the wait is being ended, and what should end it as well:
// the server goes on waiting.
func TestAnAdvanceThatIsLostWhileItIsGivenUpNeverMovesTheMark(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		if d.engine == sqlgen.SQLite {
			return // nothing is on its way there
		}
		o := occupy(t, d)
		proxy, through := d.behindProxy(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		f := guard.NewFence(through.open(t), d.engine)
		go func() { done <- f.AdvanceWithin(ctx, o.next, time.Minute) }()
		o.untilWaiting(t, 1)
		caught, _ := proxy.HoldNext()
		cancel()
		<-caught // what ends the wait, or takes it back
		proxy.HangUp()
		if err := <-done; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "may still be raised") {
			t.Errorf("the Advance that was given up: %v", err)
		}
		o.mustStay(t)
	})
}

// The same where the server cannot be reached any more.
func TestAnAdvanceThatCannotBeWithdrawnSaysSo(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		if d.engine != sqlgen.PostgreSQL {
			return
		}
		o := occupy(t, d)
		proxy, dsn := testserver.NewProxyDSN(t, d.dsn)
		through := d
		through.dsn = dsn
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		f := guard.NewFence(through.open(t), d.engine)
		go func() { done <- f.AdvanceWithin(ctx, o.next, time.Minute) }()
		o.untilWaiting(t, 1)
		proxy.Cut()
		cancel()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "may still be raised") {
			t.Errorf("the Advance that cannot be withdrawn: %v", err)
		}
	})
}

func TestABlockedErrorIsReadable(t *testing.T) {
	err := &guard.BlockedError{Resource: "r", Wait: time.Second, Blockers: []guard.Blocker{
		{PID: 1, Application: "app", Age: time.Minute}, {PID: 2, Age: time.Hour}, {PID: 3}, {Prepared: "gid"},
	}}
	want := `sqlfence: "r" is blocked by open guarded transactions after 1s: ` +
		`pid 1 (app, open for 1m0s), pid 2 (open for 1h0m0s), pid 3, prepared transaction "gid"`
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

// What was never sent is nothing to withdraw: whoever asks learns of the cause at once.
func TestAnAdvanceThatReachesNoServerSaysSo(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := nobody.Addr().String()
	nobody.Close()
	for _, d := range []database{
		{sqlgen.PostgreSQL, "pgx", "postgres://nobody@" + address + "/none?sslmode=disable"},
		{sqlgen.MySQL, "mysql", "nobody@tcp(" + address + ")/none"},
	} {
		f := guard.NewFence(d.open(t), d.engine)
		err := f.Advance(t.Context(), guard.Token{Resource: "r", Epoch: 1, Grant: 1})
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" || strings.Contains(err.Error(), "may still be raised") {
			t.Errorf("%v: error %v, want that of the dial alone", d.engine, err)
		}
		m, err := lease.NewManager(memory.New(), lease.WithFence(f))
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Acquire(t.Context(), "r", lease.Wait(0))
		if !errors.As(err, &dial) {
			t.Errorf("%v: Acquire with such a fence: error %v, want that of the dial", d.engine, err)
		}
		m.Close()
	}
}
