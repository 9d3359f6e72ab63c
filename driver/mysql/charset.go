package mysql

import (
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// checkCharset returns an error if the connections of a data source name begin with a
// character set of the client's in which a byte below 0x80 may be half a character:
// to the server, strings then end elsewhere than they seem to.
func checkCharset(c *mysql.Config) error {
	// The driver sends SET NAMES of each until one succeeds, and keeps them to itself.
	only := c.Clone()
	only.User, only.Passwd, only.Addr, only.DBName = "", "", "", ""
	_, query, _ := strings.Cut(only.FormatDSN(), "?")
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if name != "charset" {
			continue
		}
		for charset := range strings.SplitSeq(value, ",") {
			if sqlgen.Analyze(sqlgen.MySQL, "SET NAMES "+charset).Strategy != sqlgen.Pass {
				return unsafeCharset("charset=" + charset)
			}
		}
	}
	if charset, _, _ := strings.Cut(c.Collation, "_"); c.Collation != "" && !sqlgen.SafeCharset(charset) {
		return unsafeCharset("collation=" + c.Collation)
	}
	for name, value := range c.Params { // the driver makes one SET of them
		if p := sqlgen.Analyze(sqlgen.MySQL, "SET "+name+" = "+value); p.Strategy == sqlgen.Refuse && p.Verb == "SET NAMES" {
			return unsafeCharset(name + "=" + value)
		}
	}
	return nil
}

func unsafeCharset(parameter string) error {
	return &guard.SetupError{
		Problem: fmt.Sprintf("the data source name sets %s: in some character sets of the client, strings end elsewhere than they seem to", parameter),
		Remedy:  "use utf8mb4",
	}
}
