package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"

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
		raw, err := s.connect(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = raw.Close() }() // it has done what it had to do
		in, lasts = &session{raw: raw, shared: s.shared}, true
	}
	var mark, grant int64
	err := in.read(ctx, sqlgen.AdvanceSQL(s.engine), []driver.NamedValue{
		{Ordinal: 1, Value: t.Resource}, {Ordinal: 2, Value: t.Epoch}, {Ordinal: 3, Value: t.Grant},
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
