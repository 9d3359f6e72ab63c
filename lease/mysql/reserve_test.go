package mysql_test

import (
	"fmt"
	"testing"

	"github.com/sqlfence/sqlfence/internal/fencetest"
	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

// CASES D11, see [holdtest.ExhaustedPool].
func TestRenewalsSurviveAnExhaustedPool(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn, nil)
		holdtest.ExhaustedPool(t, leasemysql.New(db), db)
	})
}

// CASES D11, see [holdtest.PoolOfOne].
func TestAPoolOfOneConnectionSaysWhatIsWrong(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn, nil)
		holdtest.PoolOfOne(t, leasemysql.New(db), db)
	})
}

// D11: renewals have a connection of their own, which is replaced when it is lost and
// given back at the end.
func TestTheReserveIsGivenBackAndReplaced(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		d := fencetest.OpenMySQL(t, dsn)
		db := open(t, dsn, nil)
		db.SetMaxOpenConns(2)
		s := leasemysql.New(db)
		g := mustAcquire(t, s, "r", "A")
		reserve := s.Reserve(t.Context())
		if stats := db.Stats(); stats.InUse != 1 {
			t.Errorf("%d connections are in use, expected the reserve alone", stats.InUse)
		}
		renew := func() error {
			renewed, err := reserve.Renew(t.Context(), []lease.Claim{claim(g, "A")})
			if err == nil {
				err = renewed[0].Err
			}
			return err
		}
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := renew(); err != nil {
			t.Errorf("a renewal while the pool is exhausted: %v", err)
		}
		conn.Close()

		rows, err := d.DB.Query("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
		if err != nil {
			t.Fatal(err)
		}
		var ids []int64
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if _, err := d.DB.Exec(fmt.Sprint("KILL ", id)); err != nil && fencetest.Number(err) != 1094 {
				t.Fatal(err)
			}
		}
		if err := renew(); err != nil { // the first may tell of the end of its session
			if err := renew(); err != nil {
				t.Errorf("a renewal after the connection was lost: %v", err)
			}
		}
		reserve.Close()
		reserve.Close()
		if stats := db.Stats(); stats.InUse != 0 {
			t.Errorf("%d connections are in use after the reserve was given back", stats.InUse)
		}
		for _, limit := range []int{0, 1} {
			db.SetMaxOpenConns(limit)
			if s.Reserve(t.Context()) != nil {
				t.Errorf("a reserve of a pool with a limit of %d: expected none", limit)
			}
		}
	})
}
