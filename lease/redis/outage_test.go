package redis_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

// CASES D8, D9 and D10, see [holdtest.Outages].
func TestOutages(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		holdtest.Outages(t, func(t *testing.T) (lease.Store, *testserver.Proxy) {
			proxy, through := testserver.NewProxyDSN(t, url)
			return leaseredis.New(open(t, through)), proxy
		})
	})
}
