package postgres_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/linear"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

func TestOperationsAreLinearizable(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		direct := open(t, "pgx", dsn, "", "")
		proxy, through := testserver.NewProxyDSN(t, dsn)
		db := open(t, "pgx", through, "", "")
		db.SetMaxOpenConns(10)
		db.SetMaxIdleConns(10)
		for name, breaks := range map[string]func(){"": nil, "connections break": func() { proxy.Cut(); proxy.Restore() }} {
			t.Run(name, func(t *testing.T) {
				linear.Check(t, linear.Config{
					Store: leasepg.New(db),
					Lapse: func(t testing.TB, resource string) {
						t.Helper()
						if _, err := direct.ExecContext(t.Context(), `UPDATE sqlfence.leases SET expires_at = clock_timestamp()
							WHERE resource = $1 AND owner IS NOT NULL`, resource); err != nil {
							t.Error(err)
						}
					},
					Break:     breaks,
					Histories: 4,
				})
			})
		}
	})
}
