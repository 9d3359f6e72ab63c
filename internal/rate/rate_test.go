package rate_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlfence/sqlfence/internal/rate"
)

func TestMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		work := func() error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		got, err := rate.Measure(time.Second, []func() error{work, func() error { calls++; return work() }})
		// The last call may begin in the very moment of the end.
		if err != nil || got.PerSecond < 197 || got.PerSecond > 203 || calls < 110 || calls > 111 || got.Calls < 220 || got.Calls > 222 {
			t.Errorf("%+v of %d calls, %v; want 100 a second from each of two", got, calls, err)
		}
	})
}

func TestMeasureTellsWhoFailed(t *testing.T) {
	failure := errors.New("failure")
	calls := 0
	_, err := rate.Measure(time.Millisecond, []func() error{
		func() error { return nil },
		func() error { calls++; return failure },
	})
	if !errors.Is(err, failure) || calls != 1 {
		t.Errorf("%v after %d calls; want the failure, once", err, calls)
	}
}
