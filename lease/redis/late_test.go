package redis_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

// CASES D15, see [holdtest.LateRenewal].
func TestALateRenewalChangesNothing(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		proxy, through := testserver.NewProxyDSN(t, url)
		holdtest.LateRenewal(t, proxy, leaseredis.New(open(t, through)), leaseredis.New(open(t, url)))
	})
}
