package driver

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// CheckAtBegin checks the tokens of a transaction already when it begins, at the
// price of one more round trip: a stale owner learns of it before he has done any
// work, and every transaction takes the fence before it touches data, so that two
// of them, or one and a takeover, never wait for each other in a circle. BeginTx
// then returns the refusal. Transactions begun without a token, by text, or as
// read-only ones, which write nothing, are as ever. The check is the first
// statement of the transaction: give BeginTx the isolation level, since SET
// TRANSACTION comes too late then.
func CheckAtBegin() Option {
	return func(c *config) { c.checkAtBegin = true }
}

// Bounds are what the server allows a transaction with guarded writes; see
// [BoundTransactions]. A bound of 0 is none.
type Bounds struct {
	// Idle bounds the time between two statements
	// (idle_in_transaction_session_timeout).
	Idle time.Duration
	// Total bounds the whole transaction (transaction_timeout; PostgreSQL 17 and
	// newer, older ones do without).
	Total time.Duration
	// Unresponsive bounds how long what the server has sent may remain
	// unacknowledged (tcp_user_timeout): nothing else frees a session whose client
	// has stopped reading a large result. It has no effect on a local socket.
	Unresponsive time.Duration
}

// BoundTransactions gives each transaction with guarded writes bounds on the
// server, so that a client that has vanished or stalled cannot keep a takeover
// waiting. The server ends the session of a transaction that exceeds them. They are
// set for the transaction alone (SET LOCAL) and replace what was set before, shorter
// bounds too, by one more round trip: at BeginTx if
// its context carries a token, else before the first guarded write. Statements
// outside of a transaction are not bounded; set the same parameters for the role
// (ALTER ROLE … SET) to bound these too.
//
// PostgreSQL only: for another engine, and for a bound that is negative, below a
// millisecond or above 24 days, the driver panics when it is made.
func BoundTransactions(b Bounds) Option {
	return func(c *config) { c.bounds = &b }
}

// settings returns the bounds as PostgreSQL's settings, in milliseconds; it panics
// for bounds that no server takes.
func (b Bounds) settings(engine sqlgen.Engine) []driver.NamedValue {
	if engine != sqlgen.PostgreSQL {
		panic(fmt.Sprintf("sqlfence: %s cannot bound transactions", engine))
	}
	var args []driver.NamedValue
	for _, d := range []time.Duration{b.Idle, b.Total, b.Unresponsive} {
		ms := d.Milliseconds()
		if d < 0 || d > 0 && ms == 0 || ms > 1<<31-1 {
			panic(fmt.Sprintf("sqlfence: %s is no bound of a transaction", d))
		}
		args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: strconv.FormatInt(ms, 10)})
	}
	return args
}

// setBounds leaves alone what the server does not know, and what is not bounded.
const setBounds = `SELECT CASE WHEN $1::pg_catalog.text OPERATOR(pg_catalog.<>) '0'
	THEN pg_catalog.set_config('idle_in_transaction_session_timeout', $1::pg_catalog.text, true) END,
CASE WHEN $2::pg_catalog.text OPERATOR(pg_catalog.<>) '0' AND pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL
	THEN pg_catalog.set_config('transaction_timeout', $2::pg_catalog.text, true) END,
CASE WHEN $3::pg_catalog.text OPERATOR(pg_catalog.<>) '0'
	THEN pg_catalog.set_config('tcp_user_timeout', $3::pg_catalog.text, true) END`

// bound sets the bounds of the open transaction, if there is one that has none.
func (s *session) bound(ctx context.Context) error {
	if s.boundArgs == nil {
		return nil
	}
	if !s.inTransaction() {
		s.bounded = false
		return nil
	}
	if s.bounded {
		return nil
	}
	if err := s.read(ctx, setBounds, s.boundArgs, func([]driver.Value) error { return nil }); err != nil {
		return err
	}
	s.bounded = true
	return nil
}

// beginGuarded does what the options want of a transaction that has just begun
// with tokens.
func (s *session) beginGuarded(ctx context.Context, opts driver.TxOptions) error {
	if !s.checkAtBegin && s.boundArgs == nil || s.txTokens == nil {
		return nil
	}
	tokens := s.txTokens
	var err error
	if s.fake == nil {
		err = s.bound(ctx)
	}
	if err != nil || !s.checkAtBegin || opts.ReadOnly {
		return err
	}
	if err := s.box(ctx, tokens); err != nil {
		return err
	}
	if s.fake != nil {
		return s.fake.Check(ctx, tokens...)
	}
	if err := s.verify(ctx, tokens); err != nil {
		return err
	}
	if err := s.observe(ctx, tokens); err != nil {
		return err
	}
	if s.engine == sqlgen.SQLite {
		// The lock comes before the check, else the mark could move behind it.
		if err := s.run(ctx, takeWriteLock, nil); err != nil {
			return s.meaning(err, tokens)
		}
	}
	err = s.meaning(s.ask(ctx, tokens), tokens)
	if err == nil {
		s.touched = true
		s.passed(tokens)
	}
	return err
}

// meaning returns what err says about the fence, or err.
func (s *session) meaning(err error, tokens []guard.Token) error {
	if m := guard.FromServer(err, tokens); m != nil {
		return m
	}
	return err
}
