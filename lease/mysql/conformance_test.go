package mysql_test

import (
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestConformance(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		db := open(t, dsn, nil)
		conform(t, db, db, 50, true)
	})
}

// What a session can set does not change the contract.
func TestConformanceInOtherSurroundings(t *testing.T) {
	for name, params := range map[string]map[string]string{
		"serializable, read only and chained by default": {
			"tx_isolation": "'SERIALIZABLE'", "completion_type": "'CHAIN'", "tx_read_only": "1",
		},
		"another mode, character set and time zone": {
			"sql_mode": "'ANSI,NO_BACKSLASH_ESCAPES'", "charset": "latin1", "time_zone": "'+09:00'", "innodb_lock_wait_timeout": "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := testserver.MySQL(t)[0]
			if server.Engine == "MySQL" && params["tx_isolation"] != "" {
				params["transaction_isolation"], params["transaction_read_only"] = params["tx_isolation"], params["tx_read_only"]
				delete(params, "tx_isolation")
				delete(params, "tx_read_only")
			}
			dsn := server.Database(t)
			conform(t, open(t, dsn, nil), open(t, dsn, params), 5, params["tx_read_only"] == "" && params["transaction_read_only"] == "")
		})
	}
}

// conform holds a store on db to the contract; admin is for what the tests do. Where
// transactions are read only by default, or go on after their end, a program's own
// are of no use.
func conform(t *testing.T, admin, db *sql.DB, rounds int, transactions bool) {
	config := leasetest.Config{
		New: func(testing.TB) lease.Store { return leasemysql.New(db) },
		Lapse: func(t testing.TB, _ lease.Store, resource string) {
			t.Helper()
			lapse(t, admin, resource)
		},
		SetMark: func(t testing.TB, _ lease.Store, resource string, mark int64) {
			t.Helper()
			token := guard.Token{Resource: resource, Epoch: mark}
			if err := guard.NewFence(db, sqlgen.MySQL).Advance(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		},
		Rounds: rounds,
	}
	if transactions {
		config.Begin = func(t testing.TB, _ lease.Store) (in lease.Store, commit, rollback func() error) {
			t.Helper()
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return leasemysql.New(tx), tx.Commit, tx.Rollback
		}
	}
	leasetest.Run(t, config)
}

// open opens the database with session variables, creates the schema, and closes it
// with the test.
func open(t testing.TB, dsn string, params map[string]string) *sql.DB {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = &mysql.NopLogger{}
	for name, value := range params {
		if err := set(config, name, value); err != nil {
			t.Fatal(err)
		}
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(10)
	t.Cleanup(func() { db.Close() })
	if err := guard.Migrate(t.Context(), db, sqlgen.MySQL); err != nil {
		t.Fatal(err)
	}
	return db
}

func set(config *mysql.Config, name, value string) error {
	if name == "charset" {
		return config.Apply(mysql.Charset(value, ""))
	}
	if config.Params == nil {
		config.Params = map[string]string{}
	}
	config.Params[name] = value
	return nil
}

// lapse makes the lease of a resource lapse now, whatever its TTL.
func lapse(t testing.TB, db *sql.DB, resource string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE sqlfence_leases SET expires_at = UTC_TIMESTAMP(6) WHERE resource = ?", []byte(resource)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
