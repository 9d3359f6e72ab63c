package sqlgen

import (
	_ "embed" // the schema
	"strconv"
	"strings"
)

//go:embed schema/mysql.sql
var mysqlSchema string

// mysqlFence: the marks are read through the view sqlfence_guard, and only rows
// whose column at is the present: a TEMPORARY table takes the place of a table or
// view of the same name, but its copy of that column is old (see the schema).
var mysqlFence = fence{
	schema: mysqlSchema,
	version: func(db string) string {
		return "SELECT s.version FROM " + db + "sqlfence_schema AS s WHERE s.at = CURRENT_TIMESTAMP(6) LIMIT 1"
	},
	check:   mysqlCheck,
	mark:    "SELECT g.high_water, g.grant_id FROM sqlfence_guard AS g WHERE g.resource = UNHEX(CONVERT(? USING ascii)) AND g.at = CURRENT_TIMESTAMP(6) LIMIT 1",
	advance: "CALL sqlfence_advance(UNHEX(CONVERT(? USING ascii)), ?, ?, 10, FALSE)",
	grants:  mysqlGrants,
}

// mysqlCheck reads with a lock: it sees the newest mark under every isolation
// level, and that stays until the transaction ends. One branch for each token, so
// that exactly its row is locked, and in the tokens' order. All parameters of the
// tokens are used, because the server counts them. LIMIT, because sql_select_limit may
// say less.
func mysqlCheck(n int, db string) string {
	one := "(SELECT sqlfence_g.resource, sqlfence_g.high_water, sqlfence_g.grant_id FROM " + db + "sqlfence_guard AS sqlfence_g" +
		" WHERE sqlfence_g.resource = UNHEX(CONVERT(? USING ascii)) AND ? IS NOT NULL AND ? IS NOT NULL AND sqlfence_g.at = CURRENT_TIMESTAMP(6)" +
		" LOCK IN SHARE MODE)"
	return strings.Repeat(one+" UNION ALL ", n-1) + one + " LIMIT " + strconv.Itoa(n)
}

// mysqlLease is a consistent read: a lock would make renewals wait. It comes behind
// the check, which may have waited. SYSDATE, because a session may have a clock of its
// own (SET timestamp); the later one counts where the two differ.
const mysqlLease = "SELECT l.resource, IFNULL(l.expires_at > GREATEST(UTC_TIMESTAMP(6)," +
	" TIMESTAMPADD(MICROSECOND, TIMESTAMPDIFF(MICROSECOND, CURRENT_TIMESTAMP(6), SYSDATE(6)), UTC_TIMESTAMP(6))), 0)" +
	" FROM sqlfence_expiry AS l WHERE l.at = CURRENT_TIMESTAMP(6) AND ("

// mysqlPublic are the procedures for everybody's use.
var mysqlPublic = []string{"acquire", "abandon", "renew", "release", "advance", "inspect", "inspect_prefix", "blockers", "cancel", "purge"}

// mysqlGrants names the objects without their database: the statements are for the
// one that the session is in. The tables stay closed.
func mysqlGrants(role string) string {
	account := mysqlAccount(role)
	var b strings.Builder
	for _, view := range []string{"sqlfence_guard", "sqlfence_schema", "sqlfence_expiry"} {
		b.WriteString("GRANT SELECT ON " + view + " TO " + account + ";\n")
	}
	for _, procedure := range mysqlPublic {
		b.WriteString("GRANT EXECUTE ON PROCEDURE sqlfence_" + procedure + " TO " + account + ";\n")
	}
	return b.String()
}

// mysqlAccount quotes "name@host", the form of CURRENT_USER(), or a name alone. A
// host cannot hold an @, so the last one divides.
func mysqlAccount(role string) string {
	quote := func(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
	if at := strings.LastIndexByte(role, '@'); at > 0 {
		return quote(role[:at]) + "@" + quote(role[at+1:])
	}
	return quote(role)
}

// mysqlStatements cuts the schema where a line holds nothing but a semicolon:
// drivers take one statement at a time, and the bodies of procedures hold
// semicolons too.
func mysqlStatements() []string {
	var statements []string
	for _, s := range strings.Split(mysqlSchema, "\n;\n") {
		if s = strings.TrimSpace(s); s != "" {
			statements = append(statements, s)
		}
	}
	return statements
}
