package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
)

var (
	mysqlNoTable    = regexp.MustCompile(`^Table '([^']+)\.([^']+)' doesn't exist`)
	mysqlNoDatabase = regexp.MustCompile(`^Unknown database '([^']+)'`)
	mysqlNoColumn   = regexp.MustCompile(`^Unknown column '([^']+)' in`)
	mysqlNoIndex    = regexp.MustCompile(`^Key '([^']+)' doesn't exist in table '([^']+)'`)
	mysqlNumeric    = regexp.MustCompile(`(?i)(^|_)(id|int|uint|count|age|price|size|qty|quantity|num|number|order|amount|total|n|a|b|c|float|score|year)$|^col_?(int|float)|\d$`)
	mysqlTime       = regexp.MustCompile(`(?i)(^|_)(time|date|timestamp|at|on)$|time$|stamp$`)
)

// infer makes the tables and columns that the server misses, until it accepts
// the text or complains of something else. It returns what it then says.
func (r *mysqlReplay) infer(text string) (params int, complaint *mysql.MySQLError, err error) {
	for tries := 0; ; tries++ {
		params, complaint, err = r.parameters(text)
		if err != nil || complaint == nil || tries == 60 {
			return params, complaint, err
		}
		made := false
		for _, ddl := range r.remedies(text, complaint) {
			e, err := r.run(ddl, nil, false)
			if err != nil {
				return 0, nil, err
			}
			made = made || e.Code == 0
		}
		if !made {
			return params, complaint, nil
		}
		r.tables = nil
	}
}

func (r *mysqlReplay) remedies(text string, complaint *mysql.MySQLError) (ddl []string) {
	switch complaint.Number {
	case 1049:
		if m := mysqlNoDatabase.FindStringSubmatch(complaint.Message); m != nil && mysqlName.MatchString(m[1]) {
			r.databases = append(r.databases, m[1])
			return []string{"CREATE DATABASE " + quoteMySQL(m[1])}
		}
	case 1146:
		m := mysqlNoTable.FindStringSubmatch(complaint.Message)
		if m == nil || strings.HasPrefix(m[2], "sqlfence_") || m[1] == "mysql" || m[1] == "sys" {
			return nil
		}
		name := quoteMySQL(m[1]) + "." + quoteMySQL(m[2])
		return []string{"CREATE TABLE " + name + " (id BIGINT DEFAULT 1)", "INSERT INTO " + name + " VALUES (1), (2), (3)"}
	case 1054:
		m := mysqlNoColumn.FindStringSubmatch(complaint.Message)
		if m == nil {
			return nil
		}
		column := m[1][strings.LastIndexByte(m[1], '.')+1:]
		kind := "VARCHAR(200) DEFAULT '1'"
		switch {
		case mysqlTime.MatchString(column):
			kind = "DATETIME(6) DEFAULT '2026-01-02 03:04:05'"
		case mysqlNumeric.MatchString(column):
			kind = "BIGINT DEFAULT 1"
		}
		for _, table := range r.named(text) {
			ddl = append(ddl, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", table, quoteMySQL(column), kind))
		}
	case 1136: // more values than columns
		for i, table := range r.named(text) {
			if i == 0 {
				ddl = append(ddl, fmt.Sprintf("ALTER TABLE %s ADD COLUMN more%d VARCHAR(200)", table, r.next()))
			}
		}
	case 1176:
		if m := mysqlNoIndex.FindStringSubmatch(complaint.Message); m != nil {
			for _, table := range r.named(text) {
				ddl = append(ddl, fmt.Sprintf("CREATE INDEX %s ON %s (id)", quoteMySQL(m[1]), table))
			}
		}
	}
	return ddl
}

// named returns the tables that the text seems to name.
func (r *mysqlReplay) named(text string) (tables []string) {
	all, err := r.allTables()
	if err != nil {
		return nil
	}
	for _, t := range all {
		name := t[strings.Index(t, "`.`")+3 : len(t)-1]
		if mentions(text, name) {
			tables = append(tables, t)
		}
	}
	return tables
}

func quoteMySQL(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
