package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/internal/linear"
	"github.com/sqlfence/sqlfence/internal/testserver"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

func TestOperationsAreLinearizable(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		direct := open(t, url)
		proxy, through := testserver.NewProxyDSN(t, url)
		opts, err := goredis.ParseURL(through)
		if err != nil {
			t.Fatal(err)
		}
		// A request that the client sends again may be refused although it had
		// taken effect, if somebody else came in between.
		opts.MaxRetries = -1
		client := goredis.NewClient(opts)
		defer client.Close()
		s := leaseredis.New(client)
		// Only a lease that is held has an expiry that can be set back.
		expire := goredis.NewScript(`if redis.call('HEXISTS', KEYS[1], 'owner') == 1 then redis.call('HSET', KEYS[1], 'expiry', '1') end return 1`)
		for name, breaks := range map[string]func(){"": nil, "connections break": func() { proxy.Cut(); proxy.Restore() }} {
			t.Run(name, func(t *testing.T) {
				linear.Check(t, linear.Config{
					Store: s,
					Lapse: func(t testing.TB, resource string) {
						t.Helper()
						if err := expire.Run(t.Context(), direct, []string{s.Key(resource)}).Err(); err != nil {
							t.Error(err)
						}
					},
					Break:     breaks,
					Histories: 30,
				})
			})
		}
	})
}
