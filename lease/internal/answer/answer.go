// Package answer reads what the functions of the SQL schemas answer. They speak alike
// on all servers: outcomes are words, and times are microseconds.
package answer

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
)

// ErrBusy is the cause of a renewal that found its row locked.
var ErrBusy = errors.New("sqlfence: the lease's row is locked by another transaction")

// Loss returns the error of a renewal or release that was refused.
func Loss(op string, c lease.Claim, outcome string, holder sql.NullString, epoch, mark sql.NullInt64) error {
	e := &lease.LossError{Op: op, Claim: c, Holder: holder.String, Epoch: epoch.Int64, HighWater: mark.Int64}
	switch outcome {
	case "not_owner":
		e.Cause = lease.ErrNotOwner
	case "lapsed":
		e.Cause = lease.ErrLapsed
	case "epoch_mismatch":
		e.Cause = lease.ErrEpochMismatch
	case "busy":
		return fmt.Errorf("%w: %s of %q", ErrBusy, op, c.Token.Resource)
	default:
		return Unexpected(op, outcome)
	}
	return e
}

// Unexpected is the error of an answer that the schema of this version does not
// give. It never counts as success.
func Unexpected(op, what string) error {
	return &guard.SetupError{
		Problem: fmt.Sprintf("unexpected answer of %s: %s", op, what),
		Remedy:  "run guard.Migrate with this version of the module",
	}
}

// ScanState reads a row of inspect: resource, status, owner, epoch, mark, expiry,
// what remains.
func ScanState(rows *sql.Rows, state *lease.State) error {
	var status string
	var owner sql.NullString
	var expires, remaining sql.NullInt64
	err := rows.Scan(&state.Resource, &status, &owner, &state.Epoch, &state.HighWater, &expires, &remaining)
	if err != nil {
		return err
	}
	state.Owner, state.Expiry, state.Remaining = owner.String, time.Time{}, Microseconds(remaining.Int64)
	if expires.Valid {
		state.Expiry = Instant(expires.Int64)
	}
	switch status {
	case "free":
		state.Status = lease.Free
	case "held":
		state.Status = lease.Held
	case "lapsed":
		state.Status = lease.Lapsed
	default:
		return Unexpected("inspect", status)
	}
	return nil
}

// Instant returns the time that is us microseconds after 1970 began.
func Instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// Microseconds returns a duration.
func Microseconds(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
