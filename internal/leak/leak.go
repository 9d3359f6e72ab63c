// Package leak holds packages under test to leaving no goroutine behind.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sqlfence/sqlfence/internal/withdrawal"
)

// Main runs the tests of a package and exits, with 1 if a goroutine is left. A
// request that is still being withdrawn has its time: it ends by itself.
func Main(m *testing.M, opts ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := find(time.Now().Add(withdrawal.Time+5*time.Second), opts); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// find looks again until the deadline. goleak itself looks for about a second.
func find(deadline time.Time, opts []goleak.Option) error {
	for {
		err := goleak.Find(opts...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
