package postgres_test

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	pgdriver "github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// fencedDriver is pgx behind the fence of this module.
const fencedDriver = pgdriver.DriverName

func TestConformance(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		conform(t, open(t, "pgx", dsn, "", ""), 50)
	})
}

// What a driver, a protocol or a default can change does not change the contract.
func TestConformanceInOtherSurroundings(t *testing.T) {
	for _, tt := range []struct{ name, driver, setting, value string }{
		{"fenced driver", fencedDriver, "", ""},
		{"lib/pq", "postgres", "", ""},
		{"simple protocol", "pgx", "default_query_exec_mode", "simple_protocol"},
		{"repeatable read by default", "pgx", "default_transaction_isolation", "repeatable read"},
		{"serializable by default", "pgx", "default_transaction_isolation", "serializable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			servers := testserver.PostgreSQL(t)
			newest := servers[0]
			for _, s := range servers[1:] {
				if s.Major() > newest.Major() {
					newest = s
				}
			}
			conform(t, open(t, tt.driver, newest.Database(t), tt.setting, tt.value), 5)
		})
	}
}

func conform(t *testing.T, db *sql.DB, rounds int) {
	db.SetMaxIdleConns(10) // who races is not to spend its time on connecting
	leasetest.Run(t, leasetest.Config{
		New: func(testing.TB) lease.Store { return leasepg.New(db) },
		Lapse: func(t testing.TB, _ lease.Store, resource string) {
			t.Helper()
			lapse(t, db, resource)
		},
		SetMark: func(t testing.TB, _ lease.Store, resource string, mark int64) {
			t.Helper()
			token := guard.Token{Resource: resource, Epoch: mark}
			if err := guard.NewFence(db, sqlgen.PostgreSQL).Advance(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		},
		Begin: func(t testing.TB, _ lease.Store) (in lease.Store, commit, rollback func() error) {
			t.Helper()
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return leasepg.New(tx), tx.Commit, tx.Rollback
		},
		Rounds: rounds,
	})
}

// open opens the database with a setting, creates the schema, and closes it with
// the test.
func open(t testing.TB, driver, dsn, setting, value string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, with(t, dsn, setting, value))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := guard.Migrate(t.Context(), db, sqlgen.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	return db
}

// with adds a setting to a URL.
func with(t testing.TB, dsn, setting, value string) string {
	t.Helper()
	if setting == "" {
		return dsn
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(setting, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // libpq's way
	return u.String()
}

// lapse makes the lease of a resource lapse now, whatever its TTL.
func lapse(t testing.TB, db *sql.DB, resource string) {
	t.Helper()
	// The advice of 40001 is to run it again, also where the default is SERIALIZABLE.
	for {
		_, err := db.ExecContext(guard.Without(t.Context()),
			`UPDATE sqlfence.leases SET expires_at = clock_timestamp() WHERE resource = $1`, resource)
		if err == nil {
			return
		}
		if s, ok := err.(interface{ SQLState() string }); !ok || s.SQLState() != "40001" {
			t.Fatal(err)
		}
	}
}
