package redis_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

// CASES D10, see [holdtest.Outages].
func TestOutages(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		holdtest.Outages(t, func(t *testing.T) holdtest.Line {
			proxy, through := testserver.NewProxyDSN(t, url)
			return holdtest.Line{Store: leaseredis.New(open(t, through)), Cut: proxy.Cut, Restore: proxy.Restore}
		})
	})
}
