package withdrawal

import "strings"

// Answered reports whether an error with this SQLSTATE of PostgreSQL's is the server's
// word on what was sent, which then has had no effect and will have none. A pooler or
// proxy that has lost its server, or has left it, tells so by an error as well, while the
// server goes on: with a SQLSTATE of class 08 or 58, or of those with which a server
// ends a session. "" is no answer.
func Answered(state string) bool {
	for _, lost := range []string{"08", "57P", "58"} {
		if strings.HasPrefix(state, lost) {
			return false
		}
	}
	return state != ""
}

// AnsweredMySQL is Answered by the number of an error of MySQL's or MariaDB's. Those of
// clients, of which a proxy is one, are from 2000 to 2999, and no server has them. 0 is
// no answer.
func AnsweredMySQL(number int) bool { return number != 0 && (number < 2000 || number > 2999) }
