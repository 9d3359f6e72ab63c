package driver

import (
	"regexp"
	"strings"

	"github.com/sqlfence/sqlfence/guard"
)

// A TEMPORARY table of MySQL takes the place of a view of the same name, for its
// session. One that makes up its rows as the fence has them would open it, so that
// none of these names is made through this driver, with a token or without.
var (
	mysqlComments = regexp.MustCompile(`(?s)/\*.*?\*/|(?:#|-- )[^\n]*`)
	mysqlHiding   = regexp.MustCompile(`\bcreate\s+(?:or\s+replace\s+)?temporary\s+table\s+(?:if\s+not\s+exists\s+)?` + mysqlOurName)
	mysqlRenaming = regexp.MustCompile(`\b(?:rename|to|as)[\s=]+` + mysqlOurName)
)

const mysqlOurName = "(?:[^\\s.()']+\\s*\\.\\s*)?[`\"]?sqlfence_"

// hidesFence reports whether the text makes a temporary table with a name of ours,
// or gives a table such a name.
func hidesFence(text string) bool {
	text = strings.ToLower(text)
	if !strings.Contains(text, "sqlfence_") {
		return false
	}
	text = mysqlComments.ReplaceAllString(text, " ")
	return mysqlHiding.MatchString(text) || strings.Contains(text, "rename") && mysqlRenaming.MatchString(text)
}

func hiding() error {
	return &guard.UnsupportedError{Kind: "a table that would hide the fence",
		Reason: "names that begin with sqlfence_ are the fence's", Advice: "choose another name"}
}
