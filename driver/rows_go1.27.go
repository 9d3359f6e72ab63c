//go:build go1.27

package driver

import "database/sql/driver"

var _ driver.RowsColumnScanner = scanningRows{}

// newRows returns the rows with [driver.RowsColumnScanner] if the bare ones have
// it: from Go 1.27 on, database/sql lets the driver scan.
func newRows(r *rows) driver.Rows {
	if raw, ok := r.raw.(driver.RowsColumnScanner); ok {
		return scanningRows{r, raw}
	}
	return r
}

type scanningRows struct {
	*rows
	scanner driver.RowsColumnScanner
}

// NextRow implements [driver.RowsColumnScanner].
func (r scanningRows) NextRow() error { return r.advance(r.scanner.NextRow) }

// ScanColumn implements [driver.RowsColumnScanner].
func (r scanningRows) ScanColumn(scan driver.ScanContext, index int, dest any) error {
	return r.scanner.ScanColumn(scan, index, dest)
}
