//go:build !go1.27

package driver

import "database/sql/driver"

// newRows returns the rows; see rows_go1.27.go.
func newRows(r *rows) driver.Rows { return r }
