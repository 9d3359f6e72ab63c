package mysql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// D37: names are bytes, whatever a collation or an escape would make of them.
func TestEveryOperationWithEveryName(t *testing.T) {
	names := []string{"job", "Job", "JOB", "jób", "job ", " job", `a"b`, `a\b`, `a'b`, "a\nb", `'; DROP TABLE d; -- `, "?", "%", "_", "Jöb/日本", "\u0301", strings.Repeat("ü", 127)}
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		s := leasemysql.New(open(t, dsn, nil))
		ctx := t.Context()
		var claims []lease.Claim
		for _, name := range names {
			claims = append(claims, claim(mustAcquire(t, s, name, "owner of "+name[:min(len(name), 200)]), "owner of "+name[:min(len(name), 200)]))
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
		all, err := s.InspectPrefix(ctx, "", "", 1000)
		if err != nil || len(all) != len(names) || !slices.IsSortedFunc(all, func(a, b lease.State) int { return strings.Compare(a.Resource, b.Resource) }) {
			t.Errorf("%d states, %v; want %d in order", len(all), err, len(names))
		}
		some, err := s.InspectPrefix(ctx, "a", "a\nb", 1)
		if err != nil || len(some) != 1 || some[0].Resource != `a"b` {
			t.Errorf("the first name after a\\nb that begins with a: %+v, %v", some, err)
		}
		if none, err := s.InspectPrefix(ctx, "%", "%", 10); err != nil || len(none) != 0 {
			t.Errorf("names that begin with %%, after it: %+v, %v; want none", none, err)
		}
		for _, c := range claims {
			if err := s.Release(ctx, c, 10*time.Second); err != nil {
				t.Errorf("release of %q: %v", c.Token.Resource, err)
			}
		}
		if n, err := s.Purge(ctx, 0, 1000); err != nil || n != int64(len(names)) {
			t.Errorf("purged %d, %v; want %d", n, err, len(names))
		}
		if again := mustAcquire(t, s, "job", "A"); again.Token.Epoch != 3 {
			t.Errorf("epoch %d after a purge of epochs up to 2, want 3", again.Token.Epoch)
		}
		// The floor is everybody's: it may not take them to the end of their epochs.
		far := request("far", "A")
		far.MinEpoch = math.MaxInt64
		g, err := s.Acquire(ctx, far)
		if err != nil {
			t.Fatal(err)
		}
		lapse(t, open(t, dsn, nil), "far")
		if n, err := s.Purge(ctx, 0, 1000); err != nil || n != 0 {
			t.Errorf("purged %d, %v; want that what has epoch %d stays", n, err, g.Token.Epoch)
		}
		if again := mustAcquire(t, s, "new", "A"); again.Token.Epoch != 3 {
			t.Errorf("epoch %d of a new resource, want 3", again.Token.Epoch)
		}
	})
}

// D12: neither the sessions' time zones nor a change of the hour matter.
func TestTimeZonesDoNotMatter(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		var stores []*leasemysql.Store
		for _, zone := range []string{"+09:00", "+00:00", "-11:30"} {
			stores = append(stores, leasemysql.New(open(t, dsn, map[string]string{"time_zone": "'" + zone + "'"})))
		}
		admin := open(t, dsn, nil)
		for i, a := range stores {
			resource := fmt.Sprint("r", i)
			g := mustAcquire(t, a, resource, "A")
			if left := time.Until(g.Expiry); left < 50*time.Second || left > 70*time.Second {
				t.Errorf("the lease of a minute expires in %v", left)
			}
			for _, b := range stores {
				if _, err := b.Acquire(t.Context(), request(resource, "B")); !errors.Is(err, lease.ErrNotAcquirable) {
					t.Errorf("acquire of a held resource: %v", err)
				}
				state, err := b.Inspect(t.Context(), resource)
				if err != nil || !state.Expiry.Equal(g.Expiry) || state.Remaining <= 50*time.Second || state.Remaining > time.Minute {
					t.Errorf("inspect: %+v, %v; want the expiry %v", state, err, g.Expiry)
				}
			}
			lapse(t, admin, resource)
			mustAcquire(t, stores[(i+1)%len(stores)], resource, "B")
		}
	})
}

// A session that has a clock of its own cannot judge leases.
func TestAFrozenClockIsRefused(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn, nil)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), "SET timestamp = 1000000000"); err != nil {
			t.Fatal(err)
		}
		if _, err := leasemysql.New(conn).Acquire(t.Context(), request("r", "A")); !errors.Is(err, lease.ErrInvalidInput) || !strings.Contains(err.Error(), "clock") {
			t.Errorf("acquire in a session whose clock stands still: %v", err)
		}
		if _, err := conn.ExecContext(t.Context(), "SET timestamp = DEFAULT"); err != nil {
			t.Fatal(err)
		}
		mustAcquire(t, leasemysql.New(conn), "r", "A")
	})
}

// A denial writes nothing and waits for nothing: not for the fence, and not for the
// lease.
func TestADenialTakesNoLock(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := fencetest.OpenMySQL(t, dsn)
		s := leasemysql.New(d.DB)
		mustAcquire(t, s, "r", "A")
		locker := d.Session("BEGIN", "SELECT 1 FROM sqlfence_fences, sqlfence_leases FOR UPDATE")
		for range 3 {
			if _, err := s.Acquire(t.Context(), request("r", "B")); !errors.Is(err, lease.ErrNotAcquirable) {
				t.Errorf("acquire of a held resource: %v", err)
			}
		}
		locker.Must("ROLLBACK")
	})
}

// G2: a renewal does not wait for the fence; one row that is locked delays no other
// lease, and its own renewal succeeds as soon as it can.
func TestRenewalsWaitForNobody(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := fencetest.OpenMySQL(t, dsn)
		s := leasemysql.New(d.DB)
		var claims []lease.Claim
		for _, resource := range []string{"c", "a", "b"} {
			claims = append(claims, claim(mustAcquire(t, s, resource, "A"), "A"))
		}
		locker := d.Session("BEGIN", "SELECT 1 FROM sqlfence_fences FOR UPDATE", "SELECT 1 FROM sqlfence_leases WHERE resource = 'b' FOR UPDATE")
		renewed, err := s.Renew(t.Context(), claims)
		if err != nil || renewed[0].Err != nil || renewed[1].Err != nil || renewed[2].Err == nil || errors.Is(renewed[2].Err, lease.ErrLost) {
			t.Errorf("renewal of three, one of whose rows is locked: %+v, %v", renewed, err)
		}
		done := make(chan error, 1)
		go func() {
			renewed, err := s.Renew(t.Context(), claims[2:])
			if err == nil {
				err = renewed[0].Err
			}
			done <- err
		}()
		locker.Must("ROLLBACK")
		if err := <-done; err != nil {
			t.Errorf("renewal of the one, once its row is free: %v", err)
		}
	})
}

// In a transaction of the caller's an operation takes part; what the transaction has
// seen before does not mislead it.
func TestOperationsTakePartInATransaction(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn, nil)
		pool := leasemysql.New(db)
		var snapshots bool // the default from MariaDB 11.6 on
		if db.QueryRow("SELECT @@innodb_snapshot_isolation").Scan(&snapshots) == nil && snapshots {
			kept := mustAcquire(t, pool, "snapshot", "A")
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if err := tx.QueryRow("SELECT COUNT(*) FROM sqlfence_leases").Scan(new(int)); err != nil {
				t.Fatal(err)
			}
			mustAcquire(t, pool, "snapshot", "A")
			_, err = leasemysql.New(tx).Renew(t.Context(), []lease.Claim{claim(kept, "A")})
			if fencetest.Number(err) != 1020 {
				t.Errorf("renewal behind a snapshot that is kept: %v, want a serialization failure", err)
			}
			db = open(t, dsn, map[string]string{"innodb_snapshot_isolation": "0"})
			pool = leasemysql.New(db)
		}
		for _, isolation := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			t.Run(isolation.String(), func(t *testing.T) {
				begin := func() (*sql.Tx, *leasemysql.Store) {
					tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: isolation})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { tx.Rollback() })
					return tx, leasemysql.New(tx)
				}
				resource := isolation.String()

				tx, s := begin()
				undone := mustAcquire(t, s, resource, "A")
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				if state, err := pool.Inspect(t.Context(), resource); err != nil || state.Epoch != 0 || state.HighWater != 0 {
					t.Errorf("after a rollback: %+v, %v; want nothing", state, err)
				}
				tx, s = begin()
				kept := mustAcquire(t, s, resource, "A")
				if kept.Token.Grant == undone.Token.Grant {
					t.Errorf("two grants with the number %d", kept.Token.Grant)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				// G13: of two grants of one epoch, one is accepted.
				f := guard.NewFence(db, sqlgen.MySQL)
				if err := f.Check(t.Context(), kept.Token); err != nil {
					t.Errorf("the token of the commit: %v", err)
				}
				if err := f.Check(t.Context(), undone.Token); !errors.Is(err, guard.ErrFenced) {
					t.Errorf("the token of the rollback: %v, want fenced", err)
				}

				// A snapshot from before a re-entry judges nothing.
				tx, s = begin()
				if isolation != sql.LevelSerializable { // there it locks what it reads
					if err := tx.QueryRow("SELECT COUNT(*) FROM sqlfence_leases").Scan(new(int)); err != nil {
						t.Fatal(err)
					}
				}
				newer := mustAcquire(t, pool, resource, "A")
				renewed, err := s.Renew(t.Context(), []lease.Claim{claim(newer, "A"), claim(kept, "A")})
				if err != nil || renewed[0].Err != nil || !errors.Is(renewed[1].Err, lease.ErrEpochMismatch) {
					t.Errorf("renewal of the newer and the older: %+v, %v", renewed, err)
				}
				if err := s.Release(t.Context(), claim(kept, "A"), time.Second); !errors.Is(err, lease.ErrEpochMismatch) {
					t.Errorf("release of the older: %v", err)
				}
				if err := s.Release(t.Context(), claim(newer, "A"), time.Second); err != nil {
					t.Errorf("release of the newer: %v", err)
				}
				again := mustAcquire(t, s, resource, "B")
				if again.Token.Epoch != newer.Token.Epoch+2 {
					t.Errorf("epoch %d after a release of epoch %d, want two more", again.Token.Epoch, newer.Token.Epoch)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				if state, err := pool.Inspect(t.Context(), resource); err != nil || state.Owner != "B" || state.HighWater != again.Token.Epoch {
					t.Errorf("after the commit: %+v, %v", state, err)
				}
			})
		}
	})
}

// What an operation within a transaction could not do leaves the transaction as it
// was.
func TestARefusalLeavesTheTransactionUsable(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := fencetest.OpenMySQL(t, dsn)
		pool := leasemysql.New(d.DB)
		holder := d.Session()
		hold(t, holder, mustAcquire(t, pool, "r", "A").Token)
		d.Lapse("r")
		if _, err := d.DB.Exec("CREATE TABLE d (a INT) ENGINE = InnoDB"); err != nil {
			t.Fatal(err)
		}
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("INSERT INTO d VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		req := request("r", "B")
		req.Wait = 0
		var blocked *lease.BlockedError
		if _, err := leasemysql.New(tx).Acquire(t.Context(), req); !errors.As(err, &blocked) {
			t.Errorf("acquire: %v, want blocked", err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := d.DB.QueryRow("SELECT COUNT(*) FROM d").Scan(&n); err != nil || n != 1 {
			t.Errorf("%d rows, %v; want the one that was inserted before", n, err)
		}
	})
}

// A pool's operation does not end a transaction that somebody began by text.
func TestAnOpenTransactionOnAPooledConnectionIsNotCommitted(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn, nil)
		db.SetMaxOpenConns(1)
		for _, text := range []string{"CREATE TABLE d (a INT) ENGINE = InnoDB", "BEGIN", "INSERT INTO d VALUES (1)"} {
			if _, err := db.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := leasemysql.New(db).Acquire(t.Context(), request("r", "A")); err == nil || !strings.Contains(err.Error(), "transaction is open") {
			t.Errorf("acquire: %v, want a refusal", err)
		}
		if _, err := db.Exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM d").Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows, %v; want none, as they were rolled back", n, err)
		}
	})
}

// G12, and one round trip for each operation.
func TestOperationsLeaveNothingInTheSessionAndAreOneRoundTrip(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := fencetest.OpenMySQL(t, dsn)
		db := open(t, dsn, map[string]string{"innodb_lock_wait_timeout": "7"})
		db.SetMaxOpenConns(1)
		s := leasemysql.New(db)
		mustAcquire(t, s, "held", "B")
		mustAcquire(t, s, "blocked", "B")
		settings := func() map[string]string {
			rows, err := db.Query("SHOW SESSION VARIABLES")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			all := map[string]string{"transaction": ""}
			for rows.Next() {
				var name, value string
				if err := rows.Scan(&name, &value); err != nil {
					t.Fatal(err)
				}
				all[name] = value
			}
			for _, moving := range []string{
				"timestamp", "last_gtid", "gtid_binlog_pos", "gtid_current_pos", "gtid_executed", "statement_id",
				"error_count", "warning_count", "pseudo_thread_id", "rand_seed1", "rand_seed2",
			} {
				delete(all, moving)
			}
			return all
		}
		questions := func() (n int) {
			if err := db.QueryRow("SHOW SESSION STATUS LIKE 'Questions'").Scan(new(string), &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		holder := d.Session()
		var token guard.Token
		if err := db.QueryRow("SELECT resource, high_water, grant_id FROM sqlfence_guard WHERE resource = 'blocked'").Scan(&token.Resource, &token.Epoch, &token.Grant); err != nil {
			t.Fatal(err)
		}
		hold(t, holder, token)
		before := settings()
		var own lease.Granted
		for _, op := range []struct {
			name string
			do   func() error
			want error
		}{
			{"acquire", func() (err error) { own, err = s.Acquire(t.Context(), request("r", "A")); return err }, nil},
			{"denied acquire", func() error { _, err := s.Acquire(t.Context(), request("held", "A")); return err }, lease.ErrNotAcquirable},
			{"blocked acquire", func() error {
				req := request("blocked", "B")
				req.Wait = 0
				_, err := s.Acquire(t.Context(), req)
				return err
			}, lease.ErrBlocked},
			{"renew", func() error {
				_, err := s.Renew(t.Context(), []lease.Claim{claim(own, "A"), claim(own, "B")})
				return err
			}, nil},
			{"inspect", func() error { _, err := s.Inspect(t.Context(), "r"); return err }, nil},
			{"inspect of many", func() error { _, err := s.InspectPrefix(t.Context(), "", "", 10); return err }, nil},
			{"refused release", func() error { return s.Release(t.Context(), claim(own, "B"), 0) }, lease.ErrNotOwner},
			{"release", func() error { return s.Release(t.Context(), claim(own, "A"), time.Second) }, nil},
			{"purge", func() error { _, err := s.Purge(t.Context(), time.Hour, 10); return err }, nil},
		} {
			asked := questions()
			if err := op.do(); !errors.Is(err, op.want) {
				t.Errorf("%s: %v, want %v", op.name, err, op.want)
			}
			if n := questions() - asked - 1; n != 1 {
				t.Errorf("%s: %d statements, want 1", op.name, n)
			}
		}
		if after := settings(); !maps.Equal(before, after) {
			for name, value := range after {
				if before[name] != value {
					t.Errorf("%s was %q and is %q", name, before[name], value)
				}
			}
		}
		var open int
		if err := db.QueryRow("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID() AND trx_state <> 'RUNNING'").Scan(&open); err != nil || open != 0 {
			t.Errorf("%d transactions are open on the session, %v", open, err)
		}
		holder.Must("COMMIT")
	})
}
