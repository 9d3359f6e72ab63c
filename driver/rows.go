package driver

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"

	"github.com/sqlfence/sqlfence/guard"
)

// What the rows of a guarded statement implement. Where the bare rows do not,
// the methods answer what database/sql would have done in their absence. Rows of
// unguarded statements are the bare ones.
var (
	_ driver.Rows                           = (*rows)(nil)
	_ driver.RowsNextResultSet              = (*rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)

	_ driver.Rows                           = (*readRows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*readRows)(nil)
	_ driver.RowsColumnTypeLength           = (*readRows)(nil)
	_ driver.RowsColumnTypeNullable         = (*readRows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*readRows)(nil)
	_ driver.RowsColumnTypeScanType         = (*readRows)(nil)

	_ driver.Rows = noRows{}
)

// rows are those of a guarded statement. A refusal may show as late as at their
// end, or as the absence of rows.
type rows struct {
	session *session
	ctx     context.Context // of the query: Next and Close get none
	raw     driver.Rows
	after   driver.Stmt // closed with the rows, or nil
	tokens  []guard.Token
	spliced bool // the fence is in the statement
	sent    sent // if it is
	ask     bool // no row may mean that the fence refused; cleared when known
	returns bool // a row is one that the statement wrote, and so proof that it did
	closed  bool
	err     error // the refusal
}

// Unwrap shows sqlmw which interfaces the bare rows have.
func (r *rows) Unwrap() driver.Rows { return r.raw }

// Columns implements [driver.Rows].
func (r *rows) Columns() []string { return r.raw.Columns() }

// Next implements [driver.Rows].
func (r *rows) Next(dest []driver.Value) error {
	return r.advance(func() error { return r.raw.Next(dest) })
}

// advance goes to the next row by next.
func (r *rows) advance(next func() error) error {
	if r.err != nil {
		return r.err
	}
	err := next()
	if err == nil {
		r.ask = r.ask && !r.returns
		return nil
	}
	if err != io.EOF {
		return r.fail(err)
	}
	if r.ask {
		r.ask = false
		_ = r.closeRaw() // the rows are at their end; what a refusal rolls back must have none open
		r.closed = true
		if r.err = r.session.askAfter(r.ctx, r.tokens); r.err != nil {
			return r.err
		}
	}
	if !r.closed {
		r.session.passed(r.tokens)
	}
	return io.EOF
}

// fail returns what the error means. The transaction that a refusal rolls back
// must have no rows open.
func (r *rows) fail(err error) error {
	if !r.closed {
		r.closed = true
		_ = r.closeRaw() // err is the cause
	}
	r.err = r.session.failed(r.ctx, r.session.placed(err, r.sent), r.tokens)
	if r.spliced {
		r.err = r.session.unmasked(r.ctx, r.tokens, r.err)
	}
	if r.ask {
		// The error may have come before the first row showed, such as the end
		// of the context: the fence may have refused all the same.
		r.ask = false
		r.err = refusalOr(r.session.askAfter(r.ctx, r.tokens), r.err)
	}
	return r.err
}

// Close implements [driver.Rows]. Rows that nobody has read may be none because
// the fence refused; the caller is told here.
func (r *rows) Close() error {
	if r.closed {
		return nil
	}
	unread := r.ask
	if unread {
		r.ask = false
		// Also after an error: it may be the end of the context, of which
		// database/sql tells nobody but by closing the rows.
		unread = r.raw.Next(make([]driver.Value, len(r.raw.Columns()))) != nil || !r.returns
	}
	r.closed = true
	closed := r.closeRaw()
	if unread {
		r.err = r.session.askAfter(r.ctx, r.tokens)
	}
	if r.err == nil && closed != nil {
		return r.session.failed(r.ctx, r.session.placed(closed, r.sent), r.tokens)
	}
	return r.err
}

func (r *rows) closeRaw() error {
	err := r.raw.Close()
	if r.after != nil {
		err = errors.Join(err, r.after.Close())
	}
	return err
}

// HasNextResultSet implements [driver.RowsNextResultSet].
func (r *rows) HasNextResultSet() bool {
	n, ok := r.raw.(driver.RowsNextResultSet)
	return ok && !r.closed && n.HasNextResultSet()
}

// NextResultSet implements [driver.RowsNextResultSet].
func (r *rows) NextResultSet() error {
	n, ok := r.raw.(driver.RowsNextResultSet)
	if !ok || r.closed {
		return io.EOF
	}
	err := n.NextResultSet()
	if err != nil && err != io.EOF {
		return r.fail(err)
	}
	return err
}

// ColumnTypeDatabaseTypeName implements [driver.RowsColumnTypeDatabaseTypeName].
func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if c, ok := r.raw.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return c.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

// ColumnTypeLength implements [driver.RowsColumnTypeLength].
func (r *rows) ColumnTypeLength(i int) (int64, bool) {
	if c, ok := r.raw.(driver.RowsColumnTypeLength); ok {
		return c.ColumnTypeLength(i)
	}
	return 0, false
}

// ColumnTypeNullable implements [driver.RowsColumnTypeNullable].
func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if c, ok := r.raw.(driver.RowsColumnTypeNullable); ok {
		return c.ColumnTypeNullable(i)
	}
	return false, false
}

// ColumnTypePrecisionScale implements [driver.RowsColumnTypePrecisionScale].
func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if c, ok := r.raw.(driver.RowsColumnTypePrecisionScale); ok {
		return c.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}

// ColumnTypeScanType implements [driver.RowsColumnTypeScanType].
func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if c, ok := r.raw.(driver.RowsColumnTypeScanType); ok {
		return c.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

// readRows are rows that have been read to their end.
type readRows struct {
	columns []string
	types   []columnType
	values  [][]driver.Value
	next    int
}

// columnType is what the bare rows told of a column before they were read.
type columnType struct {
	name             string
	length           int64
	hasLength        bool
	nullable         bool
	hasNullable      bool
	precision, scale int64
	hasPrecision     bool
	scan             reflect.Type
}

// readAll reads the rows and closes them.
func readAll(raw driver.Rows) (*readRows, error) {
	r := &readRows{columns: raw.Columns()}
	r.types = make([]columnType, len(r.columns))
	view := rows{raw: raw}
	for i := range r.types {
		t := &r.types[i]
		t.name = view.ColumnTypeDatabaseTypeName(i)
		t.length, t.hasLength = view.ColumnTypeLength(i)
		t.nullable, t.hasNullable = view.ColumnTypeNullable(i)
		t.precision, t.scale, t.hasPrecision = view.ColumnTypePrecisionScale(i)
		t.scan = view.ColumnTypeScanType(i)
	}
	err := eachRow(raw, func(row []driver.Value) error {
		kept := make([]driver.Value, len(row))
		for i, v := range row {
			if b, ok := v.([]byte); ok && b != nil {
				v = bytes.Clone(b) // the driver may use it again for the next row
			}
			kept[i] = v
		}
		r.values = append(r.values, kept)
		return nil
	})
	return r, err
}

// Columns implements [driver.Rows].
func (r *readRows) Columns() []string { return r.columns }

// Next implements [driver.Rows].
func (r *readRows) Next(dest []driver.Value) error {
	if r.next == len(r.values) {
		return io.EOF
	}
	copy(dest, r.values[r.next])
	r.next++
	return nil
}

// Close implements [driver.Rows].
func (r *readRows) Close() error { return nil }

// ColumnTypeDatabaseTypeName implements [driver.RowsColumnTypeDatabaseTypeName].
func (r *readRows) ColumnTypeDatabaseTypeName(i int) string { return r.types[i].name }

// ColumnTypeLength implements [driver.RowsColumnTypeLength].
func (r *readRows) ColumnTypeLength(i int) (int64, bool) {
	return r.types[i].length, r.types[i].hasLength
}

// ColumnTypeNullable implements [driver.RowsColumnTypeNullable].
func (r *readRows) ColumnTypeNullable(i int) (nullable, ok bool) {
	return r.types[i].nullable, r.types[i].hasNullable
}

// ColumnTypePrecisionScale implements [driver.RowsColumnTypePrecisionScale].
func (r *readRows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	return r.types[i].precision, r.types[i].scale, r.types[i].hasPrecision
}

// ColumnTypeScanType implements [driver.RowsColumnTypeScanType].
func (r *readRows) ColumnTypeScanType(i int) reflect.Type { return r.types[i].scan }

// noRows is the result of a query that was answered without the server.
type noRows struct{}

// Columns implements [driver.Rows].
func (noRows) Columns() []string { return nil }

// Next implements [driver.Rows].
func (noRows) Next([]driver.Value) error { return io.EOF }

// Close implements [driver.Rows].
func (noRows) Close() error { return nil }
