package leasetest_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
