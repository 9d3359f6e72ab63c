package mysql

import (
	"database/sql"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// call is the text of a call of a procedure of the schema. The arguments stand in the
// text: with placeholders the driver would prepare it first, another round trip.
// They are made by the functions below, so that nothing in them needs an escape,
// whatever the session's sql_mode and character set.
func call(db, procedure string, args ...string) string {
	return "CALL " + db + "sqlfence_" + procedure + "(" + strings.Join(args, ", ") + ")"
}

func name(s string) string { return "x'" + hex.EncodeToString([]byte(s)) + "'" }

func number(n int64) string { return strconv.FormatInt(n, 10) }

func truth(b bool) string {
	if b {
		return "TRUE"
	}
	return "FALSE"
}

// quote quotes an identifier.
func quote(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

func scanState(rows *sql.Rows, state *lease.State) error {
	var status string
	var owner sql.NullString
	var expires, remaining sql.NullInt64
	err := rows.Scan(&state.Resource, &status, &owner, &state.Epoch, &state.HighWater, &expires, &remaining)
	if err != nil {
		return err
	}
	state.Owner, state.Expiry, state.Remaining = owner.String, time.Time{}, microseconds(remaining.Int64)
	if expires.Valid {
		state.Expiry = instant(expires.Int64)
	}
	switch status {
	case "free":
		state.Status = lease.Free
	case "held":
		state.Status = lease.Held
	case "lapsed":
		state.Status = lease.Lapsed
	default:
		return unexpected("inspect", status)
	}
	return nil
}

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

func microseconds(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
