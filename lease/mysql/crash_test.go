package mysql_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// kill -9 of the server under load: what was acknowledged is there afterwards, and no
// epoch is granted twice.
func TestAKillOfTheServerLosesNoGrant(t *testing.T) {
	testserver.EachPrivateMySQL(t, killUnderLoad, "innodb-flush-log-at-trx-commit=1")
}

func killUnderLoad(t *testing.T, server *testserver.Private) {
	db := open(t, server.Database(t), nil)
	s := leasemysql.New(db)
	granted := make(chan guard.Token)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			g, err := s.Acquire(t.Context(), request("r", "A"))
			if err != nil {
				return
			}
			granted <- g.Token
		}
	}()
	var last guard.Token
	for range 20 {
		last = <-granted
	}
	server.Kill(t)
	for open := true; open; {
		select {
		case last = <-granted:
		case <-ended:
			open = false
		}
	}
	server.Start(t)
	state, err := s.Inspect(t.Context(), "r")
	if err != nil || state.Epoch < last.Epoch || state.HighWater != state.Epoch || state.Owner != "A" {
		t.Errorf("after the crash: %+v, %v; epoch %d was acknowledged", state, err, last.Epoch)
	}
	if again := mustAcquire(t, s, "r", "A"); again.Token.Epoch <= last.Epoch {
		t.Errorf("epoch %d was granted after epoch %d", again.Token.Epoch, last.Epoch)
	}
	if err := guard.NewFence(db, sqlgen.MySQL).Check(t.Context(), last); !errors.Is(err, guard.ErrFenced) {
		t.Errorf("the token of before: %v, want fenced", err)
	}
}

// A procedure that is interrupted runs no handler, and its transaction stays open: so
// the connection is closed, and never used again.
func TestAProcedureThatIsKilledLeavesNoTransactionOpen(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := fencetest.OpenMySQL(t, dsn)
		db := open(t, dsn, nil)
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(1)
		locker := d.Session("INSERT INTO sqlfence_fences VALUES ('r', 1, 1, FALSE)", "BEGIN", "SELECT 1 FROM sqlfence_fences FOR UPDATE")
		killed := func(what string, op func() error) {
			t.Helper()
			var id int64
			if err := db.QueryRow("SELECT CONNECTION_ID()").Scan(&id); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- op() }()
			d.UntilWaiting(1, inFenceLock)
			if _, err := d.DB.Exec(fmt.Sprintf("KILL QUERY %d", id)); err != nil {
				t.Fatal(err)
			}
			if err := <-done; fencetest.Number(err) != 1317 {
				t.Errorf("%s that was killed: %v, want error 1317", what, err)
			}
			var now int64
			if err := db.QueryRow("SELECT CONNECTION_ID()").Scan(&now); err != nil || now == id {
				t.Errorf("after %s the connection is still %d (%v), want another", what, now, err)
			}
		}
		killed("an advance", func() error {
			return guard.NewFence(db, sqlgen.MySQL).Advance(t.Context(), guard.Token{Resource: "r", Epoch: 2})
		})
		s := leasemysql.New(db)
		if _, err := s.Inspect(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		req := request("r", "A")
		req.Wait = 10 * time.Second
		killed("an acquire", func() error {
			_, err := s.Acquire(t.Context(), req)
			return err
		})
		locker.Must("ROLLBACK")
		if _, err := s.Acquire(t.Context(), lease.AcquireRequest{Resource: "r", Owner: "B", TTL: time.Minute, Wait: time.Second}); err != nil {
			t.Errorf("acquire afterwards: %v", err)
		}
	})
}
