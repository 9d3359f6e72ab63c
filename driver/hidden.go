package driver

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// unmasked returns err, or the refusal that err has come before. On PostgreSQL an
// INSERT, an upsert and a MERGE are checked behind their own row work: if that
// fails, by a key that the new owner has taken for one, a stale owner would be
// told of the key alone, and may take it for his own work done.
//
// It reads the marks without a lock and without a wait: a mark that has moved is
// a refusal, and one that has not makes err the truth. Nothing is executed again.
func (s *session) unmasked(ctx context.Context, d *late, err error) error {
	if !d.late || s.refused != nil || s.broken || ctx.Err() != nil || !ofRowWork(guard.SQLState(err)) {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, rollbackTimeout)
	defer cancel()
	asking := s
	if s.inTransaction() {
		// The failed transaction answers nothing any more, and what is done
		// about it is the program's to say: it may have a savepoint.
		raw, connectErr := s.connect(bounded)
		if connectErr != nil {
			return err
		}
		defer func() { _ = raw.Close() }() // it has said what it had to say
		asking = &session{raw: raw, shared: s.shared}
	}
	for _, t := range d.tokens {
		var mark, grant int64
		readErr := asking.read(bounded, sqlgen.MarkSQL(s.engine), []driver.NamedValue{{Ordinal: 1, Value: t.Resource}}, func(row []driver.Value) error {
			var err1, err2 error
			mark, err1 = asInt(row[0])
			grant, err2 = asInt(row[1])
			return errors.Join(err1, err2)
		})
		if readErr != nil {
			return err
		}
		var fenced *guard.FencedError
		var unregistered *guard.UnregisteredError
		refusal := guard.Judge(t, mark, grant)
		switch {
		case errors.As(refusal, &fenced):
			fenced.Err = err
		case errors.As(refusal, &unregistered):
			unregistered.Err = err
		default:
			continue
		}
		s.refuse(ctx, refusal)
		return refusal
	}
	return err
}

// late is a guarded statement of which late tells that its check comes behind its
// row work.
type late struct {
	late   bool
	tokens []guard.Token
}

// ofRowWork reports whether a SQLSTATE can come from the row work of a statement,
// triggers included. What is raised before it (there is no such column), what
// may be gone the next time (a deadlock, a timeout, a lost connection) and what is
// about the server are not of it, and are told as they are.
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
