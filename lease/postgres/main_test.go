package postgres_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sqlfence/sqlfence/internal/leak"
)

func TestMain(m *testing.M) {
	leak.Main(m, goleak.IgnoreTopFunction("os/exec.(*Cmd).Wait"))
}
