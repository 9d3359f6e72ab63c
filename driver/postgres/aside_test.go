package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
)

// countingConnector counts the connections that are opened.
type countingConnector struct {
	driver.Connector
	opened atomic.Int64
}

func (c *countingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c.opened.Add(1)
	return c.Connector.Connect(ctx)
}

// A transaction whose inserts fail costs no connections: none where it has passed
// the fence before its savepoints, which no roll-back to them takes back, and one
// that is kept for the next failure otherwise.
func TestFailuresInATransactionOpenNoConnections(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		duplicate := `INSERT INTO d (id) VALUES (1)`
		for _, x := range []struct {
			name   string
			before []string
			most   int64 // more than two only where the machine is so slow that the kept one was closed
		}{
			{"passed before the savepoints", []string{`UPDATE d SET v = v`}, 1},
			{"passed in a savepoint", []string{`SAVEPOINT outermost`, `UPDATE d SET v = v`}, 10},
			{"not passed", nil, 10},
			{"passed in another transaction", []string{`UPDATE d SET v = v`, `COMMIT`, `BEGIN`, `SAVEPOINT outermost`, `ROLLBACK TO outermost`}, 10},
		} {
			c := &countingConnector{Connector: stdlib.GetConnector(*config(t, w.Bare))}
			db := sql.OpenDB(postgres.WrapConnector(c))
			db.SetMaxOpenConns(1)
			tx := w.Begin(w.With(drivertest.Current), db)
			for _, text := range x.before {
				w.Must(tx, text)
			}
			for range 20 {
				w.Must(tx, `SAVEPOINT a`)
				if err := second(tx.Exec(duplicate)); guard.SQLState(err) != "23505" {
					t.Fatalf("%s: got error %v, want the server's", x.name, err)
				}
				w.Must(tx, `ROLLBACK TO a`)
			}
			w.Want("Rollback", tx.Rollback(), nil)
			if n := c.opened.Load(); n > x.most {
				t.Errorf("%s: %d connections were opened, want %d at most", x.name, n, x.most)
			}
			w.Want("Close", db.Close(), nil)
			w.IsUntouched()
		}
	})
}

// A savepoint that is rolled back lets go of the fence that was passed in it: then
// the owner is asked about, and told that another has taken over.
func TestATakeoverAfterARollbackToASavepointIsTold(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		tx := w.Begin(w.With(drivertest.Current), w.Fenced)
		w.Must(tx, `SAVEPOINT a`)
		w.Must(tx, `UPDATE d SET v = v`)
		w.Must(tx, `ROLLBACK TO a`)
		w.Want("Advance", guard.NewFence(w.Bare, w.Engine.Engine).Advance(t.Context(), drivertest.Unknown), nil)
		w.Want("the key", second(tx.Exec(`INSERT INTO d (id) VALUES (1)`)), guard.ErrFenced)
		w.Want("Commit", tx.Commit(), guard.ErrFenced)
		w.IsUntouched()
	})
}

// Over a pool that is used up there is no connection to ask on. A failure waits for
// one once, and the next ones not at all.
func TestAFullPoolIsWaitedForOnce(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		cfg, err := pgxpool.ParseConfig(config(t, w.Bare).ConnString())
		w.Want("ParseConfig", err, nil)
		cfg.MaxConns = 1
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		w.Want("NewWithConfig", err, nil)
		defer pool.Close()
		c := &countingConnector{Connector: stdlib.GetPoolConnector(pool)}
		db := sql.OpenDB(postgres.WrapConnector(c))
		db.SetMaxIdleConns(0)
		for i := range 3 {
			tx := w.Begin(w.With(drivertest.Current), db)
			w.Must(tx, `SAVEPOINT a`)
			before := c.opened.Load()
			if err := second(tx.Exec(`INSERT INTO d (id) VALUES (1)`)); guard.SQLState(err) != "23505" {
				t.Fatalf("got error %v, want the server's", err)
			}
			if n, want := c.opened.Load()-before, max(int64(1-i), 0); n != want {
				t.Errorf("failure %d: %d connections were asked for, want %d", i, n, want)
			}
			w.Want("Rollback", tx.Rollback(), nil)
		}
		w.Want("Close", db.Close(), nil)
		if n := pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%d connections of the pool are still in use", n)
		}
	})
}
