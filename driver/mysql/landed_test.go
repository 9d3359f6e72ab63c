package mysql_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
)

func TestWhatLandedIsNotCalledFenced(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		drivertest.Landed(w, "") // a trigger may not write what its statement reads
	})
}
