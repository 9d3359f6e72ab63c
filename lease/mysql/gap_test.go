package mysql_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// A locking read of a row that is not there locks the gap where it would be, from
// REPEATABLE READ on: two transactions that both hold it can each wait for the other
// to insert.
func TestTransactionsThatAcquireNewResourcesDoNotMeet(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn, nil)
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			t.Run(level.String(), func(t *testing.T) {
				ctx := t.Context()
				var txs [2]*sql.Tx
				for i := range txs {
					var err error
					if txs[i], err = db.BeginTx(ctx, &sql.TxOptions{Isolation: level}); err != nil {
						t.Fatal(err)
					}
				}
				name := func(i, round int) string { return fmt.Sprintf("%v of %d, %d", level, i, round) }
				for round := range 20 {
					for i, tx := range txs {
						if _, err := leasemysql.New(tx).Acquire(ctx, request(name(i, round), "A")); err != nil {
							t.Fatalf("round %d: %v", round, err)
						}
					}
					// What takes no transaction of the caller's is not kept waiting either.
					mustAcquire(t, leasemysql.New(db), name(2, round), "A")
				}
				for i, tx := range txs {
					if err := tx.Commit(); err != nil {
						t.Fatal(err)
					}
					if s, err := leasemysql.New(db).Inspect(ctx, name(i, 19)); err != nil || s.Owner != "A" {
						t.Errorf("%+v, %v; want that A holds it", s, err)
					}
				}
			})
		}
	})
}
