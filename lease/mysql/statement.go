package mysql

import (
	"encoding/hex"
	"strconv"
	"strings"
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
