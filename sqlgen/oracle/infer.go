package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"github.com/jackc/pgx/v5/pgconn"
)

// The corpora of ORMs and query builders hold no schema. inferSchema lets the
// server itself say what is missing, statement by statement, and returns the
// DDL that makes most of them run.
func (r *postgresReplay) inferSchema(ctx context.Context, statements []statement) (ddl []statement, err error) {
	conn, err := r.empty(ctx, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for _, s := range statements {
		text := asSent(s)
		parsed, err := parse(text)
		if err != nil || len(parsed) != 1 || !isSingleWrite(parsed[0]) {
			continue
		}
		tables := tablesOf(parsed[0])
		for range 80 {
			fix := remedy(text, tables, explainError(ctx, conn, text))
			if len(fix) == 0 {
				break
			}
			made := false
			for _, sql := range fix {
				if o := execute(ctx, conn, sql, nil, nil); o.State == "" {
					made = true
					ddl = append(ddl, statement{Corpus: s.Corpus, File: s.File, Dialect: s.Dialect, SQL: sql})
				}
			}
			if !made {
				break
			}
		}
	}
	return ddl, nil
}

// explainError is what the server's planner says against a statement.
func explainError(ctx context.Context, conn *pgconn.PgConn, text string) *pgconn.PgError {
	var e *pgconn.PgError
	d, err := conn.Prepare(ctx, "", "EXPLAIN "+text, nil)
	if err == nil {
		err = conn.ExecParams(ctx, "EXPLAIN "+text, make([][]byte, len(d.ParamOIDs)), nil, nil, nil).Read().Err
	}
	errors.As(err, &e)
	return e
}

var (
	missingTable  = regexp.MustCompile(`^relation "(.+)" does not exist`)
	missingSchema = regexp.MustCompile(`^schema "(.+)" does not exist`)
	missingType   = regexp.MustCompile(`^type "(.+)" does not exist`)
	columnOf      = regexp.MustCompile(`^column "([^"]+)" of relation "([^"]+)" does not exist`)
	missingColumn = regexp.MustCompile(`^column (?:([^".]+)\.)?"?([^"]+)"? does not exist`)
	wrongType     = regexp.MustCompile(`^column "([^"]+)" is of type .+ but expression is of type (.+)`)
	noOperator    = regexp.MustCompile(`^operator does not exist: (.+?) (?:\S+) (.+)$`)
	lastColumn    = regexp.MustCompile(`"?(\w+)"?\s*$`)
)

// remedy is the DDL that may cure an error; none where nobody knows.
func remedy(text string, tables map[string]string, e *pgconn.PgError) []string {
	if e == nil {
		return nil
	}
	var fix []string
	each := func(format, column string, args ...any) {
		for _, table := range tables {
			fix = append(fix, fmt.Sprintf(format, append([]any{table, quoteName(column)}, args...)...))
		}
	}
	switch e.Code {
	case "3F000":
		if m := missingSchema.FindStringSubmatch(e.Message); m != nil {
			fix = append(fix, "CREATE SCHEMA "+quoteName(m[1]))
		}
	case "42P01":
		if m := missingTable.FindStringSubmatch(e.Message); m != nil {
			schema, table, qualified := strings.Cut(m[1], ".")
			if qualified {
				fix = append(fix, "CREATE SCHEMA IF NOT EXISTS "+quoteName(schema), "CREATE TABLE "+quoteName(schema)+"."+quoteName(table)+" ()")
			} else {
				fix = append(fix, "CREATE TABLE "+quoteName(m[1])+" ()")
			}
		}
	case "42704":
		if m := missingType.FindStringSubmatch(e.Message); m != nil {
			fix = append(fix, "CREATE DOMAIN "+m[1]+" AS text")
		}
	case "42703":
		if m := columnOf.FindStringSubmatch(e.Message); m != nil {
			each("ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s text", m[1])
		} else if m := missingColumn.FindStringSubmatch(e.Message); m != nil {
			if table := tables[m[1]]; table != "" {
				fix = append(fix, fmt.Sprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s text", table, quoteName(m[2])))
			} else {
				for _, table := range tables {
					return []string{fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s text", table, quoteName(m[2]))}
				}
			}
		}
	case "42804":
		if m := wrongType.FindStringSubmatch(e.Message); m != nil {
			each("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING NULL", m[1], m[2])
		}
	case "42883":
		m := noOperator.FindStringSubmatch(e.Message)
		if m == nil || int(e.Position) < len("EXPLAIN ")+1 {
			break
		}
		at := int(e.Position) - len("EXPLAIN ") - 1
		runes := []rune(text)
		if at > len(runes) {
			break
		}
		if c := lastColumn.FindStringSubmatch(string(runes[:at])); c != nil {
			each("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING NULL", c[1], m[2])
		}
	case "42P10":
		if m := conflict.FindStringSubmatch(text); m != nil {
			for _, table := range tables {
				fix = append(fix, fmt.Sprintf("CREATE UNIQUE INDEX ON %s (%s)", table, m[1]))
			}
		}
	}
	return fix
}

// tablesOf maps the names and aliases of a statement to its tables.
func tablesOf(n *pg.Node) map[string]string {
	tables := map[string]string{}
	walk(n.ProtoReflect(), func(m proto.Message) bool {
		if r, ok := m.(*pg.RangeVar); ok {
			table := quoteName(r.Relname)
			if r.Schemaname != "" {
				table = quoteName(r.Schemaname) + "." + table
			}
			tables[r.Relname] = table
			if r.Alias != nil {
				tables[r.Alias.Aliasname] = table
			}
		}
		return true
	})
	return tables
}
