package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/sqlfence/sqlfence/driver/internal/native"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// maxSeen bounds the tokens that are remembered. To forget one costs a question.
const maxSeen = 4096

// seenTokens are those that were registered, or found to be there. Safe for
// concurrent use.
type seenTokens struct {
	mu     sync.Mutex
	tokens map[guard.Token]struct{}
}

func (s *seenTokens) has(t guard.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.tokens[t]
	return ok
}

func (s *seenTokens) add(t guard.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil || len(s.tokens) >= maxSeen {
		s.tokens = make(map[guard.Token]struct{})
	}
	s.tokens[t] = struct{}{}
}

// observe registers tokens that are above the mark, where the policy says so. A
// stale one is no error here: the statement will be told.
func (s *session) observe(ctx context.Context, tokens []guard.Token) error {
	if !s.policy.Observes() {
		return nil
	}
	for _, t := range tokens {
		if s.seen.has(t) {
			continue
		}
		if err := s.advance(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) advance(ctx context.Context, t guard.Token) error {
	in := s
	// What the transaction has done may be undone; and on these engines the mark
	// moves in a transaction of its own. SQLite has one writer, which this is.
	lasts := !s.inTransaction()
	if s.engine == sqlgen.MySQL || !lasts && s.engine == sqlgen.PostgreSQL {
		if err := s.apart(ctx, t); err != nil {
			return err
		}
		raw, err := s.second(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = raw.Close() }() // it has done what it had to do
		in, lasts = &session{raw: raw, native: native.Of(raw), shared: s.shared}, true
		if err := in.box(ctx, []guard.Token{t}); err != nil {
			return err
		}
	}
	var mark, grant int64
	err := in.read(ctx, sqlgen.AdvanceSQL(s.engine), []driver.NamedValue{
		{Ordinal: 1, Value: sqlgen.ResourceParam(s.engine, t.Resource)}, {Ordinal: 2, Value: t.Epoch}, {Ordinal: 3, Value: t.Grant},
	}, func(row []driver.Value) error {
		var err1, err2 error
		mark, err1 = asInt(row[0])
		grant, err2 = asInt(row[1])
		return errors.Join(err1, err2)
	})
	if err != nil {
		return s.meaning(onceOnly(err), []guard.Token{t})
	}
	if lasts && guard.Judge(t, mark, grant) == nil {
		s.seen.add(t)
	}
	return nil
}

// second opens another connection. It may have to come from a pool of which the
// program, waiting here, holds the last one.
func (s *session) second(ctx context.Context) (driver.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, rollbackTimeout)
	defer cancel()
	raw, err := s.connect(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("sqlfence: a token is registered on a second connection, and none could be had in %s: %w", rollbackTimeout, err)
	}
	return raw, err
}

// turnstileHeld counts the locks of the session on the turnstile of a resource.
const turnstileHeld = `SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks AS l,
	pg_catalog.hashtextextended($1::pg_catalog.text COLLATE pg_catalog."C", 0) AS h (key)
WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory'::pg_catalog.text AND l.granted
	AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
	AND l.objsubid OPERATOR(pg_catalog.=) 2::pg_catalog.int2
	AND l.classid OPERATOR(pg_catalog.=) ((h.key OPERATOR(pg_catalog.>>) 32) OPERATOR(pg_catalog.&) 4294967295::pg_catalog.int8)::pg_catalog.oid
	AND l.objid OPERATOR(pg_catalog.=) (h.key OPERATOR(pg_catalog.&) 4294967295::pg_catalog.int8)::pg_catalog.oid`

// apart makes sure that the registration does not wait for the very transaction
// that waits for it: it may have passed the fence under a lower token.
func (s *session) apart(ctx context.Context, t guard.Token) error {
	if s.engine != sqlgen.PostgreSQL || !s.touched {
		return nil // before its first guarded write, no snapshot is to be taken
	}
	var held int64
	err := s.read(ctx, turnstileHeld, []driver.NamedValue{{Ordinal: 1, Value: t.Resource}}, func(row []driver.Value) (err error) {
		held, err = asInt(row[0])
		return err
	})
	if err != nil || held == 0 {
		return err
	}
	mark, _, err := s.markOf(ctx, t.Resource)
	if err != nil || mark >= t.Epoch {
		return err // there is nothing to wait for, and the statement is told what is true
	}
	return &guard.UnsupportedError{
		Kind:   fmt.Sprintf("the registration of epoch %d of resource %q", t.Epoch, t.Resource),
		Reason: "this transaction has passed the fence of the resource under another token, and until it ends the mark cannot move",
		Advice: "end the transaction before writing under the higher token",
	}
}
