package driver

import (
	"errors"
	"reflect"

	"github.com/sqlfence/sqlfence/guard"
)

// unspliceable reports that err is PostgreSQL's for a table whose rules do not go with a
// WITH list. The routine in the server's source is named in every language; the
// SQLSTATE alone also stands for cached plans.
func unspliceable(err error) bool {
	if guard.SQLState(err) != "0A000" {
		return false
	}
	routine := routineOf(err)
	return routine == "RewriteQuery" || routine == "rewriteRuleAction"
}

// routineOf returns the routine that the server's error names: pgx and lib/pq have it in
// a field, bun's pgdriver tells it by the protocol's letter.
func routineOf(err error) string {
	var byLetter interface {
		error
		Field(byte) string
	}
	if errors.As(err, &byLetter) {
		return byLetter.Field('R')
	}
	var server interface {
		error
		SQLState() string
	}
	if !errors.As(err, &server) {
		return ""
	}
	v := reflect.Indirect(reflect.ValueOf(server))
	if v.Kind() != reflect.Struct {
		return ""
	}
	if f := v.FieldByName("Routine"); f.Kind() == reflect.String {
		return f.String()
	}
	return ""
}
