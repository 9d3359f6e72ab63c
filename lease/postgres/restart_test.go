package postgres_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

// kill -9, where other commits may be acknowledged before they are durable.
func TestConformanceAcrossRestarts(t *testing.T) {
	server := testserver.PrivatePostgreSQL(t, "fsync=on", "synchronous_commit=off", "wal_writer_delay=10s")
	db := open(t, "pgx", server.DSN, "", "")
	leasetest.RunRestart(t, leasetest.Config{
		New:   func(testing.TB) lease.Store { return leasepg.New(db) },
		Lapse: func(t testing.TB, _ lease.Store, resource string) { lapse(t, db, resource) },
		Restart: func(t testing.TB, s lease.Store) lease.Store {
			// Renewals, and what the test itself has written, are not waited for.
			if _, err := db.ExecContext(t.Context(), `SELECT pg_switch_wal()`); err != nil {
				t.Fatal(err)
			}
			server.Kill(t)
			server.Start(t)
			db.SetMaxIdleConns(0) // connections to the server that was killed
			db.SetMaxIdleConns(10)
			return s
		},
	})
}
