package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sqlfence/sqlfence/guard"
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

// errBusy is the cause of a renewal that found its row locked.
var errBusy = errors.New("sqlfence: the lease's row is locked by another transaction")

func isState(err error, states ...string) bool {
	s := guard.SQLState(err)
	return s != "" && slices.Contains(states, s)
}

// isAnswer reports whether err is the server's own: then the transaction has
// been rolled back for certain.
func isAnswer(err error) bool { return guard.SQLState(err) != "" }

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
	if known := guard.FromServer(err, nil); known != nil {
		return known
	}
	return err
}

// loss returns the error of a renewal or release that was refused.
func loss(op string, c lease.Claim, outcome string, holder sql.NullString, epoch, mark sql.NullInt64) error {
	e := &lease.LossError{Op: op, Claim: c, Holder: holder.String, Epoch: epoch.Int64, HighWater: mark.Int64}
	switch outcome {
	case "not_owner":
		e.Cause = lease.ErrNotOwner
	case "lapsed":
		e.Cause = lease.ErrLapsed
	case "epoch_mismatch":
		e.Cause = lease.ErrEpochMismatch
	case "busy":
		return fmt.Errorf("%w: %s of %q", errBusy, op, c.Token.Resource)
	default:
		return unexpected(op, outcome)
	}
	return e
}

// unexpected is the error of an answer that the schema of this version does not
// give. It never counts as success.
func unexpected(op, what string) error {
	return &guard.SetupError{
		Problem: fmt.Sprintf("unexpected answer of %s: %s", op, what),
		Remedy:  "run guard.Migrate with this version of the module",
	}
}
