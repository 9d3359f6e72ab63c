package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// state is everything the file knows of a resource. Times are in milliseconds
// by the clock of this statement.
type state struct {
	floor, now   int64
	owner        sql.NullString
	epoch, grant int64 // 0 where there is no lease row
	expiry       int64 // 0 where nobody holds it
	mark         int64 // 0 where there is none
}

func readState(ctx context.Context, q Querier, resource string) (state, error) {
	s, err := scanState(q.QueryRowContext(ctx, sqlgen.SQLiteLeaseState, resource).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return state{}, errNoMeta
	}
	return s, err
}

// errNoMeta is the error of an incomplete schema.
var errNoMeta = &guard.SetupError{Problem: "the table sqlfence_meta is empty", Remedy: "run guard.Migrate"}

// scanState reads the columns of [sqlgen.SQLiteLeaseState].
func scanState(scan func(columns ...any) error) (state, error) {
	var (
		s                                    state
		version                              int64
		epoch, grant, expiry, mark, markedBy sql.NullInt64
	)
	err := scan(&version, &s.floor, &s.now, &s.owner, &epoch, &grant, &expiry, &mark, &markedBy)
	if err != nil {
		return state{}, setup(err)
	}
	if version != sqlgen.SchemaVersion {
		return state{}, &guard.SetupError{
			Problem: fmt.Sprintf("the schema has version %d, this program needs %d", version, sqlgen.SchemaVersion),
			Remedy:  "run guard.Migrate of the newer of the two",
		}
	}
	s.epoch, s.grant, s.expiry, s.mark = epoch.Int64, grant.Int64, expiry.Int64, mark.Int64
	return s, nil
}

// setup tells missing tables from other failures.
func setup(err error) error {
	if err == nil {
		return nil
	}
	if wrong := guard.WrongEngine(err, sqlgen.SQLite); wrong != nil {
		return wrong
	}
	if text := err.Error(); strings.Contains(text, "no such table") && strings.Contains(text, "sqlfence_") {
		return &guard.SetupError{Problem: "the tables of sqlfence are missing", Remedy: "run guard.Migrate; with :memory: each connection has a database of its own: use a file", Err: err}
	}
	return err
}

func (s state) held() bool { return s.owner.Valid && s.expiry > s.now }

func (s state) remaining() time.Duration {
	if !s.held() {
		return 0
	}
	return time.Duration(s.expiry-s.now) * time.Millisecond
}

// denial returns why the request cannot be granted, or nil.
func (s state) denial(req lease.AcquireRequest) error {
	if s.held() && (s.owner.String != req.Owner || req.Reentry == lease.ReentryRefuse) {
		return &lease.HeldError{Resource: req.Resource, Holder: s.owner.String, Remaining: s.remaining()}
	}
	if max(s.floor, s.epoch, s.mark) == math.MaxInt64 && !(s.held() && req.Reentry == lease.ReentryExtend) {
		return fmt.Errorf("%w: acquire of %q", lease.ErrExhausted, req.Resource)
	}
	return nil
}

// loss returns why a claim was refused by the statement before.
func (s state) loss(op string, c lease.Claim) error {
	e := &lease.LossError{Op: op, Claim: c, Holder: s.owner.String, Epoch: s.epoch, HighWater: s.mark}
	switch {
	case !s.owner.Valid || s.owner.String != c.Owner:
		e.Cause = lease.ErrNotOwner
	case !s.held():
		e.Cause = lease.ErrLapsed
	case op == "release" && s.epoch == math.MaxInt64 && c.Token.Epoch == s.epoch && c.Token.Grant == s.grant:
		return fmt.Errorf("%w: release of %q", lease.ErrExhausted, c.Token.Resource)
	default:
		e.Cause = lease.ErrEpochMismatch
	}
	return e
}

func (s state) public(resource string) lease.State {
	p := lease.State{
		Resource:  resource,
		Owner:     s.owner.String,
		Epoch:     s.epoch,
		HighWater: s.mark,
		Remaining: s.remaining(),
	}
	if s.owner.Valid {
		p.Status = lease.Lapsed
		p.Expiry = time.UnixMilli(s.expiry).UTC()
	}
	if s.held() {
		p.Status = lease.Held
	}
	return p
}
