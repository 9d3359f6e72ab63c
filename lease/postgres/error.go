package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/withdrawal"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// The SQLSTATEs that matter here.
const (
	queryCanceled         = "57014"
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	inFailedTransaction   = "25P02"
	insufficientPrivilege = "42501"
	epochsExhausted       = "SF004"
)

func isState(err error, states ...string) bool {
	s := guard.SQLState(err)
	return s != "" && slices.Contains(states, s)
}

// isAnswer reports whether err is the server's own: then the transaction has
// been rolled back for certain.
func isAnswer(err error) bool { return withdrawal.Answered(guard.SQLState(err)) }

// isSpent tells the spent wait from a cancel and a statement_timeout, which have
// the same SQLSTATE, by a text of ours that no server translates (CASES D32).
func isSpent(err error) bool {
	return isState(err, queryCanceled) && strings.Contains(err.Error(), "sqlfence: wait bound spent")
}

// explain returns err, or what it means for a caller if that is known here.
func explain(err error) error {
	if err == nil {
		return nil
	}
	switch guard.SQLState(err) {
	case epochsExhausted:
		return fmt.Errorf("%w: %w", lease.ErrExhausted, err)
	case insufficientPrivilege:
		return &guard.SetupError{
			Problem: "this role may not use the leases",
			Remedy:  "as the owner of the schema sqlfence, run: " + strings.ReplaceAll(strings.TrimSpace(sqlgen.Grants(sqlgen.PostgreSQL, "this role")), "\n", " "),
			Err:     err,
		}
	}
	if wrong := guard.WrongEngine(err, sqlgen.PostgreSQL); wrong != nil {
		return wrong
	}
	if known := guard.FromServer(err, nil); known != nil {
		return known
	}
	return err
}
