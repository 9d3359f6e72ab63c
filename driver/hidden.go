package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// unmasked returns err, or the refusal that err has come before. On PostgreSQL an
// INSERT, an upsert and a MERGE are checked behind their own row work, and triggers
// for a statement and constant expressions come before every check: if that fails,
// by a key that the new owner has taken for one, a stale owner would be told of the
// key alone, and may take it for his own work done.
//
// It reads the marks without a lock and without a wait: a mark that has moved is
// a refusal, and one that has not makes err the truth. Nothing is executed again.
func (s *session) unmasked(ctx context.Context, tokens []guard.Token, err error) error {
	if s.engine != sqlgen.PostgreSQL || s.refused != nil || s.broken || ctx.Err() != nil || !ofRowWork(guard.SQLState(err)) {
		return err
	}
	var refusal error
	question := func(ctx context.Context, on *session) (askErr error) {
		refusal, askErr = on.judge(ctx, tokens, err)
		return askErr
	}
	var askErr error
	switch {
	case !s.inTransaction():
		bounded, cancel := context.WithTimeout(ctx, rollbackTimeout)
		defer cancel()
		askErr = question(bounded, s)
	case s.keepsAll(tokens):
		return err // no mark has moved when it failed
	default:
		// The failed transaction answers nothing any more, and what is done
		// about it is the program's to say: it may have a savepoint.
		askErr = s.aside.ask(ctx, s.shared, question)
	}
	if askErr != nil || refusal == nil {
		return err
	}
	s.refuse(ctx, refusal)
	return refusal
}

// judge reads the marks of the tokens and returns the first refusal, which unwraps
// to cause too.
func (s *session) judge(ctx context.Context, tokens []guard.Token, cause error) (refusal, err error) {
	if err := s.box(ctx, tokens); err != nil {
		return nil, err
	}
	for _, t := range tokens {
		mark, grant, err := s.markOf(ctx, t.Resource)
		if err != nil {
			return nil, err
		}
		var fenced *guard.FencedError
		var unregistered *guard.UnregisteredError
		refusal := guard.Judge(t, mark, grant)
		switch {
		case errors.As(refusal, &fenced):
			fenced.Err = cause
		case errors.As(refusal, &unregistered):
			unregistered.Err = cause
		default:
			continue
		}
		return refusal, nil
	}
	return nil, nil
}

// markOf reads the mark of the resource: 0 if there is none.
func (s *session) markOf(ctx context.Context, resource string) (mark, grant int64, err error) {
	err = s.read(ctx, sqlgen.MarkSQL(s.engine), []driver.NamedValue{{Ordinal: 1, Value: sqlgen.ResourceParam(s.engine, resource)}}, func(row []driver.Value) error {
		var err1, err2 error
		mark, err1 = asInt(row[0])
		grant, err2 = asInt(row[1])
		return errors.Join(err1, err2)
	})
	return mark, grant, err
}

// passed notes that the tokens have passed the check. In a transaction of BeginTx
// with no savepoint open, their marks cannot move before it ends: no ROLLBACK TO
// lets go of them.
func (s *session) passed(tokens []guard.Token) {
	if s.tx == nil || s.nested || s.engine != sqlgen.PostgreSQL || len(tokens) == 0 {
		return
	}
	if len(s.kept) == 0 || len(s.kept) == len(tokens) && &s.kept[0] == &tokens[0] {
		s.kept = tokens[:len(tokens):len(tokens)] // as it is, mostly
		return
	}
	for _, t := range tokens {
		if !slices.Contains(s.kept, t) {
			s.kept = append(s.kept, t)
		}
	}
}

// keepsAll reports whether the open transaction keeps the marks of all tokens
// where they are.
func (s *session) keepsAll(tokens []guard.Token) bool {
	for _, t := range tokens {
		if !slices.Contains(s.kept, t) {
			return false
		}
	}
	return s.tx != nil
}

// ofRowWork reports whether a SQLSTATE can come from the work of a statement before
// it is checked, triggers included. What is wrong with its text (class 42: there is
// no such column, or no privilege), what may be gone the next time (a deadlock, a
// timeout, a lost connection) and what is about the server are not of it, and are
// told as they are.
func ofRowWork(state string) bool {
	if len(state) != 5 {
		return false
	}
	switch state[:2] {
	case "00", "01", "02", "08", "0A", "25", "26", "28", "40", "42", "53", "54", "55", "57", "58", "F0", "SF", "XX":
		return false
	}
	return true
}
