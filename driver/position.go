package driver

import (
	"database/sql/driver"
	"errors"
	"reflect"
	"strconv"
	"unsafe"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// sent is what the server was sent of a spliced statement, to tell what its errors
// mean.
type sent struct {
	plan   *sqlgen.Plan
	tokens int
	text   string              // the user's
	fenced string              // the same, spliced
	direct []driver.NamedValue // the arguments; nil of a prepared statement
}

func (d *decision) sent(t target, args []driver.NamedValue) sent {
	s := sent{plan: d.plan, tokens: len(d.tokens), text: d.text, fenced: d.fenced}
	if _, ok := t.(*direct); ok {
		s.direct = args
	}
	return s
}

// placed returns err with the place that PostgreSQL names moved to where that is in
// the user's text (SPEC G5): a program, or its user, looks for it there. Of the drivers
// that tell it in a field Position, pgx and lib/pq among them, no error is ever of two
// statements, so that it is changed as it is: who looks for the type finds it.
func (s *session) placed(err error, to sent) error {
	var server interface {
		error
		SQLState() string
	}
	if err == nil || to.plan == nil || s.engine != sqlgen.PostgreSQL || !errors.As(err, &server) {
		return err
	}
	v := reflect.ValueOf(server)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return err
	}
	place := v.Elem().FieldByName("Position")
	if !place.CanSet() {
		return err
	}
	switch place.Kind() {
	case reflect.Int32, reflect.Int64, reflect.Int:
		place.SetInt(int64(s.position(int(place.Int()), to)))
	case reflect.String:
		n, numErr := strconv.Atoi(place.String())
		if numErr != nil {
			return err
		}
		place.SetString(strconv.Itoa(s.position(n, to)))
		// lib/pq keeps the text, and tells the line and the column of the place in it.
		if q := v.Elem().FieldByName("query"); q.Kind() == reflect.String && q.String() == to.fenced {
			*(*string)(unsafe.Pointer(q.UnsafeAddr())) = to.text //nolint:gosec // a string, as the line above has found
		}
	}
	return err
}

func (s *session) position(place int, in sent) int {
	var widths []int
	if s.native != nil && in.direct != nil {
		var ok bool
		if widths, ok = s.native.Widths(in.direct); !ok {
			return 0 // none is better than a wrong one
		}
	}
	return in.plan.Position(in.tokens, place, widths)
}
