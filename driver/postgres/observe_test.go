package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
)

// A registration on another connection would wait for the transaction that waits
// for it: that is told at once, and a transaction that no longer holds the fence
// does register.
func TestAnObservedTokenDoesNotWaitForItsOwnTransaction(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		policy, err := guard.NewPolicy(guard.Observe())
		w.Want("NewPolicy", err, nil)
		const update = `UPDATE d SET v = v`
		token := func(epoch int64) context.Context {
			return w.With(guard.Token{Resource: "observed", Epoch: epoch})
		}
		for _, opts := range [][]fence.Option{{}, {fence.CheckAtBegin()}} {
			db := like(t, w, nil, append(opts, fence.WithPolicy(policy))...)
			tx := w.Begin(token(8), db)
			w.Want("first", second(tx.Exec(update)), nil)
			_, err = tx.ExecContext(token(9), update)
			w.Want("higher", err, guard.ErrUnsupported)
			if guard.SQLState(err) != "" {
				t.Errorf("the server was asked to wait: %v", err)
			}
			w.Want("lower", second(tx.ExecContext(token(7), update)), guard.ErrFenced)
			w.Want("Commit", tx.Commit(), guard.ErrFenced)

			tx = w.Begin(token(8), db)
			w.Want("another resource", second(tx.ExecContext(w.With(guard.Token{Resource: "another", Epoch: 1}), update)), nil)
			w.Want("Rollback", tx.Rollback(), nil)
		}
		db := like(t, w, nil, fence.WithPolicy(policy))
		tx := w.Begin(context.Background(), db)
		w.Must(tx, `SAVEPOINT a`)
		w.Want("in a savepoint", second(tx.ExecContext(token(8), update)), nil)
		w.Must(tx, `ROLLBACK TO a`)
		w.Want("after it", second(tx.ExecContext(token(9), update)), nil)
		w.Want("Commit", tx.Commit(), nil)
		w.IsUntouched()
	})
}

// Over a pool that is used up, a registration in a transaction ends in an error.
func TestARegistrationOverAFullPoolEnds(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		policy, err := guard.NewPolicy(guard.Observe())
		w.Want("NewPolicy", err, nil)
		cfg, err := pgxpool.ParseConfig(config(t, w.Bare).ConnString())
		w.Want("ParseConfig", err, nil)
		cfg.MaxConns = 1
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		w.Want("NewWithConfig", err, nil)
		defer pool.Close()
		db := sql.OpenDB(postgres.WrapConnector(stdlib.GetPoolConnector(pool), fence.WithPolicy(policy)))
		db.SetMaxIdleConns(0)
		defer db.Close()
		tx := w.Begin(w.With(guard.Token{Resource: "pooled", Epoch: 1}), db)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := second(tx.ExecContext(ctx, `UPDATE d SET v = 'x'`)); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("got error %v, want one of its own before the caller's time is over", err)
		}
		w.Want("Rollback", tx.Rollback(), nil)
		w.IsUntouched()
	})
}
