package sqlgen

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed schema/postgres.sql
var postgresSchema string

// postgresFence: every name, type and operator is qualified, so that no
// search_path, temporary object or operator of a user's can stand in for them.
var postgresFence = fence{
	schema:  postgresSchema,
	version: func(string) string { return postgresVersion },
	check:   postgresCheck,
	mark:    `SELECT m.high_water, m.grant_id FROM sqlfence.mark($1::pg_catalog.text) AS m`,
	advance: `SELECT a.high_water, a.mark_grant FROM ` +
		`sqlfence.advance($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.int8) AS a`,
	grants: postgresGrants,
}

// postgresVersion asks the catalog, and not the schema: the query must parse
// where there is no schema, and answer a role that may not use it.
const postgresVersion = `SELECT COALESCE((SELECT pg_catalog.substr(p.prosrc, 8)::pg_catalog.int8 FROM pg_catalog.pg_proc AS p ` +
	`JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace ` +
	`WHERE n.nspname OPERATOR(pg_catalog.=) 'sqlfence'::pg_catalog.name ` +
	`AND p.proname OPERATOR(pg_catalog.=) 'schema_version'::pg_catalog.name ` +
	`AND p.pronargs OPERATOR(pg_catalog.=) 0::pg_catalog.int2), 0::pg_catalog.int8)`

func postgresCheck(n int, _ string) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i := range n {
		if i > 0 {
			b.WriteString(" AND ")
		}
		k := i*TokenParams + 1
		fmt.Fprintf(&b, "sqlfence.pass($%d::pg_catalog.text, $%d::pg_catalog.int8, $%d::pg_catalog.int8)", k, k+1, k+2)
	}
	return b.String()
}

// postgresGrants leaves the tables closed: what the role needs of them the
// functions do for it. The INSERT privilege is on a table whose constraint
// admits no row. Whoever may call evict ends sessions with its owner's rights:
// that takes a grant of its own.
func postgresGrants(role string) string {
	r := `"` + strings.ReplaceAll(role, `"`, `""`) + `"`
	return "GRANT USAGE ON SCHEMA sqlfence TO " + r + ";\n" +
		"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sqlfence TO " + r + ";\n" +
		"REVOKE EXECUTE ON FUNCTION sqlfence.evict(text, text, interval) FROM " + r + ";\n" +
		"GRANT INSERT ON TABLE sqlfence.nothing TO " + r + ";\n"
}
