//go:build go1.27

package postgres_test

import (
	"context"
	"slices"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// From Go 1.27 on pgx scans what database/sql cannot.
func TestDriverScansColumns(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, ctx := range []context.Context{t.Context(), w.With(drivertest.Current)} {
			var numbers []int64
			err := w.Fenced.QueryRowContext(ctx, `UPDATE d SET v = v WHERE id = 1 RETURNING ARRAY[id, n]`).Scan(&numbers)
			w.Want("Scan", err, nil)
			if !slices.Equal(numbers, []int64{1, 10}) {
				t.Errorf("scanned %v", numbers)
			}
		}
		err := w.Fenced.QueryRowContext(w.With(drivertest.Stale), `UPDATE d SET v = v WHERE id = 1 RETURNING ARRAY[id, n]`).Scan(new([]int64))
		w.Want("stale", err, guard.ErrFenced)
	})
}
