package sqlite_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
)

// CASES D16, D17, SPEC G5: whatever a program sees is what it sees without the
// fence.
func TestComparedWithTheBareDriver(t *testing.T) {
	drivertest.Compare(t, drivertest.NewWorld(t, engine), drivertest.SQLiteComparison)
}
