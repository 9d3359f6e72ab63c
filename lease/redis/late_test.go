package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

// CASES D15, see [holdtest.LateRenewal].
func TestALateRenewalChangesNothing(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		proxy, through := testserver.NewProxyDSN(t, url)
		holdtest.LateRenewal(t, proxy, leaseredis.New(open(t, through)), leaseredis.New(open(t, url)))
	})
}

// See [holdtest.LateAcquire].
func TestAnAcquireThatArrivesLateIsNotGranted(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		proxy, through := testserver.NewProxyDSN(t, url)
		once := open(t, through, func(o *goredis.Options) { o.MaxRetries = -1 }) // an answer that is lost is an error
		holdtest.LateAcquire(t, proxy, leaseredis.New(once), leaseredis.New(open(t, url)))
	})
}

// CASES D13 (a), see [holdtest.AClientsClockDecidesNothing].
func TestAClientsClockDecidesNothing(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		holdtest.AClientsClockDecidesNothing(t, func(t *testing.T) lease.Store { return leaseredis.New(open(t, url)) })
	})
}
