package driver

import (
	"context"
	"database/sql/driver"
	"strings"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// ConnBeginTx implements [sqlmw.Interceptor]. Statements without a token of
// their own inherit those of the transaction.
func (s *session) ConnBeginTx(ctx context.Context, _ driver.ConnBeginTx, opts driver.TxOptions) (context.Context, driver.Tx, error) {
	if s.refused != nil {
		return ctx, nil, s.refused
	}
	if s.broken {
		return ctx, nil, driver.ErrBadConn
	}
	s.pass(ctx, guard.Tokens(ctx))
	inside := s.inTransaction() // PostgreSQL only warns of it
	tx, err := s.begin(ctx, opts)
	if err != nil {
		return ctx, nil, err
	}
	s.tx, s.txTokens, s.bounded, s.kept, s.nested, s.touched = tx, guard.Tokens(ctx), false, nil, inside, inside
	if err := s.beginGuarded(ctx, opts); err != nil {
		if tx.Rollback() != nil && !s.idle(ctx) {
			s.broken = true
		}
		s.ended()
		return ctx, nil, err
	}
	return ctx, tx, nil
}

// begin begins a transaction on the raw connection as database/sql would.
func (s *session) begin(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if b, ok := s.raw.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, opts)
	}
	tx, err := s.raw.Begin() //nolint:staticcheck // drivers that have no other are to work
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		if rollbackErr := tx.Rollback(); rollbackErr != nil {
			s.broken = true
		}
		return nil, err
	}
	return tx, nil
}

// TxCommit implements [sqlmw.Interceptor]. A refused transaction has been rolled
// back already, and says so (SPEC G8).
func (s *session) TxCommit(_ context.Context, tx driver.Tx) error {
	if err := s.refused; err != nil {
		s.ended()
		return err
	}
	tokens := s.txTokens
	s.ended()
	err := tx.Commit()
	if meaning := guard.FromServer(err, tokens); meaning != nil {
		return meaning
	}
	return err
}

// TxRollback implements [sqlmw.Interceptor].
func (s *session) TxRollback(_ context.Context, tx driver.Tx) error {
	refused := s.refused != nil
	s.ended()
	if refused {
		return nil
	}
	return tx.Rollback()
}

// ended forgets the transaction.
func (s *session) ended() {
	s.tx, s.textual, s.txTokens, s.outermost, s.refused, s.bounded, s.holds, s.kept = nil, false, nil, "", nil, false, false, nil
}

// reset is called before the connection is used by somebody else.
func (s *session) reset() error {
	if s.broken {
		return driver.ErrBadConn
	}
	if s.refused != nil && s.engine != sqlgen.SQLite {
		// A transaction was begun by text and left open. It was rolled back, and
		// the refusal is not for whoever is next. A database in memory ends with
		// its connection: on SQLite the text that began it has to end it.
		return driver.ErrBadConn
	}
	return nil
}

// refuse ends the open transaction, if there is one, because of err: it must
// not commit, whatever the program does now (SPEC G8).
func (s *session) refuse(ctx context.Context, err error) {
	if s.refused != nil || s.broken {
		return
	}
	switch {
	case s.engine == sqlgen.MySQL:
		s.refuseOnMySQL(ctx, err)
	case s.tx != nil:
		s.refused = err
		if s.tx.Rollback() != nil && !s.idle(ctx) {
			s.broken = true
		}
	case s.engine == sqlgen.SQLite:
		// Only SQLite knows whether a transaction is open; outside, this fails.
		if s.finally(ctx, "ROLLBACK") == nil {
			s.refused = err
		} else if !s.idle(ctx) {
			s.broken = true
		}
	case s.inTransaction():
		if s.native == nil {
			open, askErr := s.within(ctx)
			if askErr != nil {
				s.broken = true
			}
			if askErr != nil || !open {
				return
			}
		}
		s.refused = err
		if s.finally(ctx, "ROLLBACK") != nil || (s.native != nil && s.native.InTransaction()) {
			s.broken = true
		}
	}
	s.textual = false
}

// within finds out whether a transaction of PostgreSQL is open, on a connection of which
// nothing is known but texts. Of a failed one, which is open, the server says so.
func (s *session) within(ctx context.Context) (bool, error) {
	const none, failed = "25P01", "25P02"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	err := s.run(ctx, savepoint, nil)
	switch guard.SQLState(err) {
	case none:
		s.textual, s.unsure = false, false
		if s.tx == nil {
			s.txTokens = nil
		}
		return false, nil
	case failed:
		err = nil
	default:
		if err == nil {
			err = s.run(ctx, release, nil)
		}
	}
	s.unsure = err != nil
	return err == nil, err
}

// idle makes sure that no transaction is open after a roll-back failed: the
// engine may have rolled back before us. Else the connection must be given up.
func (s *session) idle(ctx context.Context) bool {
	if s.native != nil {
		return !s.native.InTransaction()
	}
	return s.engine == sqlgen.SQLite && s.finally(ctx, "BEGIN") == nil && s.finally(ctx, "ROLLBACK") == nil
}

// answer is what a statement gets in a transaction that was refused: the
// refusal. Where the transaction was begun by text, a text ends it too.
func (s *session) answer(text string) error {
	err := s.refused
	plan := s.plan(text)
	if s.tx != nil || plan.Chains {
		return err
	}
	switch plan.Kind {
	case sqlgen.KindRollback:
		s.ended()
		return nil
	case sqlgen.KindCommit:
		s.ended()
	case sqlgen.KindPrepareTx:
		if plan.Verb == "PREPARE TRANSACTION" { // of a failed one, it is a roll-back
			s.ended()
		}
	case sqlgen.KindSeveral:
		if endsAtOnce(plan) {
			s.ended()
		}
	case sqlgen.KindRelease:
		// SQLite: the end of a transaction that a savepoint has begun.
		if s.outermost != "" && s.outermost == lastWord(text) {
			s.ended()
		}
	}
	return err
}

// endsAtOnce reports whether a text of several statements ends the transaction first, and
// begins no other.
func endsAtOnce(p *sqlgen.Plan) bool {
	for i, k := range p.Kinds() {
		switch k {
		case sqlgen.KindCommit, sqlgen.KindRollback:
		case sqlgen.KindUnknown, sqlgen.KindBegin, sqlgen.KindSavepoint:
			return false
		default:
			if i == 0 {
				return false
			}
		}
	}
	return true
}

// lastWord returns the last word of the text, in lower case.
func lastWord(text string) string {
	words := strings.Fields(strings.TrimRight(text, "; \t\r\n"))
	if len(words) == 0 {
		return ""
	}
	return strings.ToLower(words[len(words)-1])
}

// track notes what a statement that was sent as it is has changed.
func (s *session) track(d *decision, err error) {
	if s.tx == nil && s.txTokens != nil && !s.inTransaction() {
		s.txTokens = nil
	}
	if d.tokens == nil && !s.tracks(d.text) {
		return
	}
	if d.plan == nil {
		d.plan = s.plan(d.text)
	}
	switch d.plan.Kind {
	case sqlgen.KindCommit, sqlgen.KindRollback, sqlgen.KindRollbackTo, sqlgen.KindPrepareTx,
		sqlgen.KindSession, sqlgen.KindSeveral, sqlgen.KindUnknown:
		s.bounded = false // undone, or another's, or set otherwise
	}
	switch d.plan.Kind {
	case sqlgen.KindSavepoint:
		s.nested = true // what was passed before stays passed whatever is rolled back to
	case sqlgen.KindRelease, sqlgen.KindRollbackTo, sqlgen.KindEmpty, sqlgen.KindRead, sqlgen.KindInsert, sqlgen.KindUpdate,
		sqlgen.KindDelete, sqlgen.KindMerge, sqlgen.KindWriteInWith, sqlgen.KindSession, sqlgen.KindDefinition, sqlgen.KindOtherWrite:
	default:
		s.kept, s.nested = nil, true // another transaction, or who knows
	}
	if s.engine == sqlgen.MySQL {
		s.doubt(d.plan, err)
	}
	switch d.plan.Kind {
	case sqlgen.KindBegin:
		if err == nil && s.tx == nil {
			s.textual, s.txTokens = true, d.tokens
		}
	case sqlgen.KindSavepoint:
		// On SQLite it begins a transaction where there is none.
		if err == nil && s.engine == sqlgen.SQLite && !s.inTransaction() {
			s.textual, s.txTokens, s.outermost = true, d.tokens, lastWord(d.text)
		}
	case sqlgen.KindRelease:
		if err == nil && s.outermost != "" && s.outermost == lastWord(d.text) {
			s.ended()
		}
	case sqlgen.KindCommit, sqlgen.KindRollback, sqlgen.KindPrepareTx:
		// A failed COMMIT ends the transaction on PostgreSQL, but not always
		// on SQLite, where being wrong in this direction costs nothing.
		if !d.plan.Chains && (err == nil || s.engine != sqlgen.SQLite) {
			s.textual, s.outermost, s.holds = false, "", s.holds && s.tx != nil
			if s.tx == nil {
				s.txTokens = nil
			}
		}
	case sqlgen.KindAttach:
		s.databases = unasked
	case sqlgen.KindSeveral, sqlgen.KindUnknown:
		// Anything may have happened: what is done under a token from now on
		// finds out whether a transaction is open, or fails.
		s.textual, s.unsure = true, true
		s.databases = unasked
	}
}
