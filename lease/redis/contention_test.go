package redis_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/holdtest"
	"github.com/sqlfence/sqlfence/internal/testserver"
)

func TestEightProcessesNeverGetOneTokenTwice(t *testing.T) { // CASES D6 (b)
	testserver.EachRedis(t, func(t *testing.T, url string) { holdtest.Contenders(t, url, 100) })
}
