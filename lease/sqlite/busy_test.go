package sqlite

import (
	"errors"
	"fmt"
	"testing"
)

// methodError tells its code as modernc.org/sqlite's errors do.
type methodError struct {
	code int
	text string
}

func (e *methodError) Error() string { return e.text }
func (e *methodError) Code() int     { return e.code }

// fieldError tells its code as mattn/go-sqlite3's errors do: by fields of types
// of its own, and by a text without the number.
type fieldError struct {
	Code         number
	ExtendedCode number
	text         string
}

type number int

func (e fieldError) Error() string { return e.text }

func TestBusyIsToldFromOtherFailures(t *testing.T) {
	tests := []struct {
		err         error
		busy, stale bool
	}{
		{&methodError{5, "database is locked (5) (SQLITE_BUSY)"}, true, false},
		{&methodError{5 | 1<<8, "database is locked (261)"}, true, false},
		{&methodError{5 | 2<<8, "database is locked (517)"}, true, true},
		{&methodError{6 | 1<<8, "database table is locked (262)"}, true, false},
		{&methodError{15, "locking protocol (15)"}, true, false},
		{fmt.Errorf("wrapped: %w", &methodError{5, ""}), true, false},
		{fieldError{5, 5, "database is locked"}, true, false},
		{fieldError{5, 5 | 2<<8, "database is locked"}, true, true},
		{fieldError{6, 6, "database table is locked: sqlfence_leases"}, true, false},
		{fmt.Errorf("wrapped: %w", fieldError{5, 5, "?"}), true, false},
		{errors.New("database is locked"), true, false},
		{&methodError{19, "constraint failed: the name 'database is locked' is taken (1555)"}, false, false},
		{&methodError{1, "no such table: main.sqlfence_meta"}, false, false},
		{&methodError{9, "interrupted (9)"}, false, false},
		{&methodError{13, "database or disk is full (13)"}, false, false},
		{fieldError{10, 10, "disk I/O error"}, false, false},
		{fieldError{0, 0, "database is closed"}, false, false},
		{errors.New("sql: transaction has already been committed or rolled back"), false, false},
	}
	for _, tt := range tests {
		if busy, stale := isBusy(tt.err), isStale(tt.err); busy != tt.busy || stale != tt.stale {
			t.Errorf("%v: expected busy %v and stale %v, saw %v and %v", tt.err, tt.busy, tt.stale, busy, stale)
		}
	}
}
