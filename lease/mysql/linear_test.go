package mysql_test

import (
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/internal/linear"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
)

func TestOperationsAreLinearizable(t *testing.T) {
	testserver.EachMySQL(t, func(t *testing.T, dsn string) {
		direct := open(t, dsn, nil)
		config, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		proxy := testserver.NewProxy(t, config.Addr)
		config.Addr = proxy.Addr()
		db := open(t, config.FormatDSN(), nil)
		db.SetMaxOpenConns(10)
		for name, breaks := range map[string]func(){"": nil, "connections break": func() { proxy.Cut(); proxy.Restore() }} {
			t.Run(name, func(t *testing.T) {
				linear.Check(t, linear.Config{
					Store: leasemysql.New(db),
					Lapse: func(t testing.TB, resource string) {
						t.Helper()
						// Never forward: another statement's clock may have stopped before this one's.
						if _, err := direct.ExecContext(t.Context(), "UPDATE sqlfence_leases SET expires_at = LEAST(expires_at, UTC_TIMESTAMP(6) - INTERVAL 1 SECOND) WHERE resource = ? AND owner IS NOT NULL",
							[]byte(resource)); err != nil {
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
