package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// accounts are a database whose schema belongs to an account with exactly the rights
// that are documented, used by another with exactly those of sqlgen.Grants.
type accounts struct {
	t          *testing.T
	d          *fencetest.MySQL // of a superuser
	dsn        string
	owner, app string // quoted
	mysql      bool
}

func newAccounts(t *testing.T, dsn string) *accounts {
	t.Helper()
	a := &accounts{t: t, dsn: dsn}
	admin := connect(t, a.config())
	var version string
	if err := admin.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	a.mysql = !strings.Contains(version, "MariaDB")
	a.owner, a.app = a.create(admin, "own"), a.create(admin, "app")
	a.must(admin, "GRANT CREATE, CREATE VIEW, DROP, CREATE ROUTINE, SELECT, INSERT, UPDATE, DELETE, EXECUTE ON "+a.config().DBName+".* TO "+a.owner)
	if err := guard.Migrate(t.Context(), a.as(a.owner), sqlgen.MySQL); err != nil {
		t.Fatal(err)
	}
	for _, grant := range strings.Split(strings.TrimSpace(sqlgen.Grants(sqlgen.MySQL, strings.ReplaceAll(a.app, "`", ""))), "\n") {
		a.must(admin, strings.TrimSuffix(grant, ";"))
	}
	a.must(admin, "CREATE TABLE d (a INT) ENGINE = InnoDB")
	a.must(admin, "GRANT INSERT ON d TO "+a.app)
	a.d = fencetest.OpenMySQL(t, dsn)
	return a
}

func (a *accounts) config() *mysql.Config {
	a.t.Helper()
	config, err := mysql.ParseDSN(a.dsn)
	if err != nil {
		a.t.Fatal(err)
	}
	return config
}

// create creates an account. It belongs to the whole server, so its name is one of
// this test's own.
func (a *accounts) create(admin *sql.DB, kind string) string {
	a.t.Helper()
	db := a.config().DBName
	name := "`" + kind + db[len(db)-12:] + "`@`127.0.0.1`"
	a.must(admin, "CREATE USER "+name)
	a.t.Cleanup(func() {
		if _, err := admin.ExecContext(context.WithoutCancel(a.t.Context()), "DROP USER "+name); err != nil {
			a.t.Error(err)
		}
	})
	return name
}

func (a *accounts) must(db *sql.DB, text string) {
	a.t.Helper()
	if _, err := db.ExecContext(a.t.Context(), text); err != nil {
		a.t.Fatalf("%s: %v", text, err)
	}
}

func (a *accounts) as(account string) *sql.DB {
	a.t.Helper()
	config := a.config()
	config.User, config.Passwd = strings.Split(account, "`")[1], ""
	return connect(a.t, config)
}

// connect opens a database, without its schema.
func connect(t *testing.T, config *mysql.Config) *sql.DB {
	t.Helper()
	config.Logger = &mysql.NopLogger{} // of connections that were ended
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// holder begins a guarded transaction as the account, which has written, and lets the
// lease lapse. It returns the number of the connection, and what ends it.
func (a *accounts) holder(account string) (id int64, end func()) {
	a.t.Helper()
	a.d.Lapse("r") // whoever has it
	g := mustAcquire(a.t, leasemysql.New(a.d.DB), "r", "A")
	db := a.as(account)
	conn, err := db.Conn(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	end = func() { _, _ = conn.Close(), db.Close() }
	a.t.Cleanup(end)
	for _, text := range []string{"BEGIN", "INSERT INTO d VALUES (1)"} {
		if _, err := conn.ExecContext(a.t.Context(), text); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := guard.NewFence(conn, sqlgen.MySQL).Check(a.t.Context(), g.Token); err != nil {
		a.t.Fatal(err)
	}
	if err := conn.QueryRowContext(a.t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		a.t.Fatal(err)
	}
	a.d.Lapse("r")
	return id, end
}

// blocked acquires, as the application, what the connection holds, and advances it, and
// returns the errors.
func (a *accounts) blocked(wait time.Duration) map[string]error {
	a.t.Helper()
	app := a.as(a.app)
	req := request("r", "B")
	req.Wait = wait
	_, acquire := leasemysql.New(app).Acquire(a.t.Context(), req)
	advance := guard.NewFence(app, sqlgen.MySQL).AdvanceWithin(a.t.Context(), guard.Token{Resource: "r", Epoch: 1 << 40}, req.Wait)
	return map[string]error{"Acquire": acquire, "Advance": advance}
}

// evict is Evict while an acquire of the application waits, which then ends: by itself
// if somebody was ended, by end if not.
func (a *accounts) evict(end func()) ([]lease.Blocker, error) {
	a.t.Helper()
	s := leasemysql.New(a.as(a.app))
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(a.t.Context(), request("r", "B"))
		done <- err
	}()
	a.d.UntilWaiting(1, inFenceLock)
	ended, err := s.Evict(a.t.Context(), "r", "B", 0)
	// MariaDB does not renew what it tells of transactions until nobody has asked for
	// 100 ms.
	for again := time.NewTicker(200 * time.Millisecond); err == nil && len(ended) == 0 && a.t.Context().Err() == nil && len(done) == 0; {
		<-again.C
		ended, err = s.Evict(a.t.Context(), "r", "B", 0)
	}
	if len(ended) == 0 {
		end()
	}
	if err := <-done; err != nil {
		a.t.Errorf("the acquire: %v", err)
	}
	return ended, err
}

// Whoever is in the way is named, and ended, with the rights that are documented; where
// one is missing, the errors tell the GRANT, with the account that it is for.
func TestWhoeverMayNotSeeOrEndBlockersIsToldTheGrant(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		a := newAccounts(t, dsn)
		connectionAdmin := "CONNECTION ADMIN"
		if a.mysql {
			connectionAdmin = "CONNECTION_ADMIN"
		}
		see := []string{"GRANT PROCESS ON *.* TO " + a.owner}
		if a.mysql {
			see = append([]string{"GRANT SELECT ON performance_schema.* TO " + a.owner}, see...) // it asks for that first
		}
		for _, missing := range see {
			a.mustBeBlocked(func(_ int64, err *lease.BlockedError) bool {
				return len(err.Blockers) == 0 && strings.Contains(err.Error(), missing)
			})
			_, end := a.holder(a.app)
			if ended, err := a.evict(end); len(ended) != 0 || !errors.Is(err, guard.ErrSetup) || !strings.Contains(err.Error(), missing) {
				t.Errorf("evict, without it: %v, %v; want %s", ended, err, missing)
			}
			a.must(a.d.DB, missing)
		}
		a.mustBeBlocked(func(id int64, err *lease.BlockedError) bool {
			return len(err.Blockers) == 1 && err.Blockers[0].PID == id && err.Blockers[0].Prepared == "" &&
				strings.Contains(err.Blockers[0].Application, strings.Split(a.app, "`")[1])
		})
		id, end := a.holder(a.app)
		if ended, err := a.evict(end); err != nil || len(ended) != 1 || ended[0].PID != id {
			t.Errorf("evict of a connection of the same account: %v, %v; want connection %d", ended, err, id)
		}

		// Of another account.
		missing := "GRANT " + connectionAdmin + " ON *.* TO " + a.app
		id, end = a.holder(a.owner)
		if ended, err := a.evict(end); len(ended) != 0 || !errors.Is(err, guard.ErrSetup) || !strings.Contains(err.Error(), missing) {
			t.Errorf("evict of another account's connection %d: %v, %v; want %s", id, ended, err, missing)
		}
		a.must(a.d.DB, missing)
		id, end = a.holder(a.owner)
		if ended, err := a.evict(end); err != nil || len(ended) != 1 || ended[0].PID != id {
			t.Errorf("evict of another account's connection: %v, %v; want connection %d", ended, err, id)
		}
	})
}

// mustBeBlocked fails unless the errors of what is blocked, by a holder that then
// ends, are such. They tell only of a wait that has begun on the server, which may take
// a moment.
func (a *accounts) mustBeBlocked(want func(id int64, err *lease.BlockedError) bool) {
	a.t.Helper()
	id, end := a.holder(a.app)
	defer end()
	for wait := 300 * time.Millisecond; ; wait *= 2 {
		right := true
		for what, err := range a.blocked(wait) {
			var blocked *lease.BlockedError
			if !errors.As(err, &blocked) || !errors.Is(err, lease.ErrBlocked) || errors.Is(err, guard.ErrSetup) {
				a.t.Fatalf("%s: %v; want what blocks it, and no error of set-up", what, err)
			}
			if !want(id, blocked) {
				right = false
				if wait > 5*time.Second {
					a.t.Errorf("%s, blocked by connection %d: %v", what, id, err)
				}
			}
		}
		if right || wait > 5*time.Second {
			return
		}
	}
}

// Within a procedure a connection has the rights of the schema's account, and is that
// account's to end. What is given up is ended on the server all the same, and has no
// effect later.
func TestWhatAnApplicationsAccountGivesUpHasNoEffect(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		a := newAccounts(t, dsn)
		app := a.as(a.app)
		req := request("r", "B")
		req.Wait = time.Hour
		operations := map[string]func(context.Context) error{
			"Acquire": func(ctx context.Context) error {
				_, err := leasemysql.New(app).Acquire(ctx, req)
				return err
			},
			"Advance": func(ctx context.Context) error {
				return guard.NewFence(app, sqlgen.MySQL).AdvanceWithin(ctx, guard.Token{Resource: "r", Epoch: 1 << 40}, req.Wait)
			},
		}
		for name, run := range operations {
			_, end := a.holder(a.app)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- run(ctx) }()
			a.d.UntilWaiting(1, inFenceLock)
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) || err.Error() != context.Canceled.Error() {
				t.Errorf("%s: %v, want that it was cancelled, and nothing left open", name, err)
			}
			a.d.UntilWaiting(0, inFenceLock)
			end()
			state, err := leasemysql.New(a.d.DB).Inspect(t.Context(), "r")
			if err != nil || state.Status != lease.Lapsed || state.Owner != "A" || state.HighWater != state.Epoch {
				t.Errorf("after %s that was given up: %+v, %v; want A's lapsed lease as before", name, state, err)
			}
		}
	})
}
