package mysql

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/withdrawal"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/answer"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// The errors that matter here, by number: no server translates those.
const (
	checkRead            = 1020 // MariaDB with innodb_snapshot_isolation: read the old, and asks to write the new
	serverShutdown       = 1053
	unknownThread        = 1094
	killDenied           = 1095
	lockWaitTimeout      = 1205
	deadlock             = 1213
	queryInterrupted     = 1317
	specificAccessDenied = 1227
	signal               = 1644 // with a SQLSTATE of ours
	connectionKilled     = 1927
	statementTimeout     = 1969
	executionTimeout     = 3024
)

// The SQLSTATEs of the procedures that matter here.
const (
	epochsExhausted = "SF004"
	notFree         = "SF007"
)

// serverError returns number and SQLSTATE of the server's error in the chain of
// err, 0 where the server has not answered. The error of go-sql-driver has fields
// and no methods, and this package links no driver, so they are asked for by name.
func serverError(err error) (number int, state string) {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.ValueOf(err)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			continue
		}
		n, s := v.FieldByName("Number"), v.FieldByName("SQLState")
		if n.IsValid() && n.Kind() == reflect.Uint16 && s.IsValid() && s.Type() == reflect.TypeFor[[5]byte]() {
			var b [5]byte
			reflect.Copy(reflect.ValueOf(b[:]), s)
			return int(n.Uint()), string(b[:])
		}
	}
	return 0, ""
}

func isNumber(err error, numbers ...int) bool {
	n, _ := serverError(err)
	return n != 0 && slices.Contains(numbers, n)
}

// isAnswer reports whether err is the server's own, after which it has rolled
// back for certain. What interrupts a procedure may do so after its COMMIT.
func isAnswer(err error) bool {
	n, _ := serverError(err)
	return withdrawal.AnsweredMySQL(n) && !isNumber(err, serverShutdown, queryInterrupted, connectionKilled, statementTimeout, executionTimeout)
}

// isBusy reports whether a wait for a lock was spent, or there was to be none.
func isBusy(err error) bool {
	n, state := serverError(err)
	return n == lockWaitTimeout || n == signal && state == notFree
}

// explain returns err, or what it means for a caller if that is known here.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if n, state := serverError(err); n == signal && state == epochsExhausted {
		return fmt.Errorf("%w: %w", lease.ErrExhausted, err)
	}
	if errors.Is(err, errNoRow) {
		return answer.Unexpected("the procedure", "no row")
	}
	if errors.Is(err, lease.ErrBlocked) {
		return err
	}
	if wrong := guard.WrongEngine(err, sqlgen.MySQL); wrong != nil {
		return wrong
	}
	if known := guard.FromServer(err, nil); known != nil {
		return known
	}
	return err
}
