package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// The statements of our own on SQLite. A savepoint is a transaction where none
// is open and a part of one where one is, so that nothing depends on what the
// session believes: SQLite ends transactions without being asked to, by ON
// CONFLICT ROLLBACK for one.
const (
	savepoint   = "SAVEPOINT sqlfence_check"
	release     = "RELEASE sqlfence_check"
	rollbackTo  = "ROLLBACK TO sqlfence_check"
	sqliteFence = "main.sqlfence_" // as it stands in SQLite's messages

	// takeWriteLock writes no row, and takes the lock of main at its start.
	takeWriteLock = "DELETE FROM main.sqlfence_fences WHERE 0"
)

// rollbackTimeout bounds what must be sent although the caller's context may
// have ended.
const rollbackTimeout = 5 * time.Second

// failed returns what the error of a guarded statement means, and rolls the
// transaction back if it is a refusal. Every other error is returned as it is.
func (s *session) failed(ctx context.Context, err error, tokens []guard.Token) error {
	if err == nil {
		return nil
	}
	s.unsure = s.unsure || s.engine == sqlgen.MySQL && err != driver.ErrSkip // a deadlock ends the transaction
	if meaning := guard.FromServer(err, tokens); meaning != nil {
		err = meaning
	} else if s.engine == sqlgen.SQLite && strings.Contains(err.Error(), "no such table: "+sqliteFence) {
		err = missing(err)
	} else if s.engine == sqlgen.PostgreSQL && unspliceable(err) {
		return &guard.UnsupportedError{Kind: "this write", Reason: "a rule of the table does not go with it: " + err.Error(),
			Advice: "write to a table without such a rule", Err: err}
	}
	if errors.Is(err, guard.ErrFenced) || errors.Is(err, guard.ErrUnregistered) {
		s.refuse(ctx, err)
	}
	s.lost(ctx, err)
	return err
}

// ofEngine returns err, or that the database is of another engine.
func (s *session) ofEngine(err error) error {
	if wrong := guard.WrongEngine(err, s.engine); wrong != nil {
		return wrong
	}
	return err
}

func missing(err error) error {
	return &guard.SetupError{Problem: "the schema of sqlfence is missing from this database", Remedy: "run guard.Migrate", Err: err}
}

// ask executes the check of the tokens and returns the refusal of the
// first that does not pass, unmapped where the server raised it.
func (s *session) ask(ctx context.Context, tokens []guard.Token) error {
	if err := s.box(ctx, tokens); err != nil {
		return err
	}
	args := make([]driver.NamedValue, len(s.boxed))
	for i, v := range s.boxed {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	if s.engine == sqlgen.PostgreSQL {
		return s.run(ctx, sqlgen.CheckSQL(s.engine, len(tokens), s.sqlOptions()...), args)
	}
	judged := make(map[string]error, len(tokens))
	err := s.read(ctx, sqlgen.CheckSQL(s.engine, len(tokens), s.sqlOptions()...), args, func(row []driver.Value) error {
		resource, ok := asString(row[0])
		mark, err1 := asInt(row[1])
		grant, err2 := asInt(row[2])
		if !ok || err1 != nil || err2 != nil {
			return fmt.Errorf("sqlfence: the mark reads as %T, %T, %T", row[0], row[1], row[2])
		}
		for _, t := range tokens {
			if t.Resource == resource {
				judged[resource] = guard.Judge(t, mark, grant)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if err, found := judged[t.Resource]; !found {
			return guard.Judge(t, 0, 0)
		} else if err != nil {
			return err
		}
	}
	if s.policy.EndsAtExpiry() {
		return s.unexpired(ctx, tokens, args)
	}
	return nil
}

// unexpired returns the refusal of the first token whose lease does not run. The fence
// lets them pass, and args are theirs. PostgreSQL's check knows this by itself.
func (s *session) unexpired(ctx context.Context, tokens []guard.Token, args []driver.NamedValue) error {
	runs := make(map[string]bool, len(tokens))
	err := s.read(ctx, sqlgen.LeaseSQL(s.engine, len(tokens), s.sqlOptions()...), args, func(row []driver.Value) error {
		resource, ok := asString(row[0])
		n, err := asInt(row[1])
		if !ok || err != nil {
			return fmt.Errorf("sqlfence: the lease reads as %T, %T", row[0], row[1])
		}
		runs[resource] = n != 0
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range tokens {
		live, found := runs[t.Resource]
		if err := guard.JudgeLease(t, found, live); err != nil {
			return err
		}
	}
	return nil
}

// askAfter asks about a statement that has been executed and has shown no row.
// The answer must be had also if the caller's context has ended meanwhile: until
// it is known, the transaction must not commit (SPEC G8). If it cannot be had,
// the transaction is ended as by a refusal.
func (s *session) askAfter(ctx context.Context, tokens []guard.Token) error {
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	err := s.ask(after, tokens)
	if err == nil {
		return nil
	}
	err = s.failed(ctx, onceOnly(err), tokens)
	s.refuse(ctx, err)
	return err
}

// hidden returns err, or the refusal that it hides: the end of the context comes
// before any answer, and MySQL's error of a sub-select with several rows is how
// listed rows are refused, but may be one of the program's own.
func (s *session) hidden(ctx context.Context, d *decision, err error) error {
	const severalRows = 1242
	ended := ctx.Err() != nil && (d.plan.AskOnZero() || d.plan.Raises())
	if s.refused != nil || !ended && !(d.plan.Raises() && guard.ServerNumber(err) == severalRows) {
		return err
	}
	return refusalOr(s.askAfter(ctx, d.tokens), err)
}

// refusalOr returns asked if it is a refusal by the fence, and err otherwise.
func refusalOr(asked, err error) error {
	if errors.Is(asked, guard.ErrFenced) || errors.Is(asked, guard.ErrUnregistered) {
		return asked
	}
	return err
}

func asString(v driver.Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// verify finds out, once per connector, whether the database is set up.
func (s *session) verify(ctx context.Context, tokens []guard.Token) error {
	if s.verified.Load() {
		return nil
	}
	if s.engine == sqlgen.SQLite && s.inTransaction() {
		// Read first, and a deferred transaction can no longer wait for the
		// write lock, which the statement to come would have done.
		if err := s.run(ctx, takeWriteLock, nil); err != nil {
			return s.failed(ctx, s.ofEngine(err), tokens)
		}
	}
	var version int64
	err := s.read(ctx, sqlgen.VersionSQL(s.engine, s.sqlOptions()...), nil, func(row []driver.Value) (err error) {
		version, err = asInt(row[0])
		return err
	})
	switch {
	case err != nil:
		return s.failed(ctx, s.ofEngine(err), tokens)
	case version == 0:
		return missing(nil)
	case version != sqlgen.SchemaVersion:
		remedy := "run guard.Migrate"
		if version > sqlgen.SchemaVersion {
			remedy = "build the program with a newer sqlfence"
		}
		return &guard.SetupError{
			Problem: fmt.Sprintf("the schema has version %d, and this program needs %d", version, sqlgen.SchemaVersion),
			Remedy:  remedy,
		}
	}
	s.verified.Store(true)
	return nil
}

// bracket is a transaction, or a part of one, in which the check has passed and
// in which the fence stays shut to takeovers.
type bracket struct {
	session *session
	tokens  []guard.Token
	tx      driver.Tx // a transaction of our own
	saved   bool      // a savepoint of our own
}

// open reports whether there is something to end.
func (b *bracket) open() bool { return b.tx != nil || b.saved }

// bracket opens one and checks the tokens in it.
func (s *session) bracket(ctx context.Context, tokens []guard.Token) (*bracket, error) {
	b := &bracket{session: s, tokens: tokens}
	switch s.engine {
	case sqlgen.SQLite:
		if err := s.run(ctx, savepoint, nil); err != nil {
			return nil, err
		}
		b.saved = true
		// The lock comes before the check, else the mark could move between
		// the check and the statement.
		if err := s.run(ctx, takeWriteLock, nil); err != nil {
			return nil, b.end(ctx, err)
		}
	case sqlgen.MySQL:
		open, err := s.open(ctx)
		if err != nil {
			return nil, err
		}
		if !open {
			tx, err := s.begin(ctx, driver.TxOptions{})
			if err != nil {
				return nil, err
			}
			b.tx = tx
		}
	default:
		open := s.inTransaction()
		if open && s.native == nil { // the texts say so
			var err error
			if open, err = s.within(ctx); err != nil {
				return nil, err
			}
		}
		if open {
			break
		}
		tx, err := s.begin(ctx, driver.TxOptions{})
		if err != nil {
			return nil, err
		}
		b.tx = tx
		if s.boundArgs != nil {
			if err := s.read(ctx, setBounds, s.boundArgs, func([]driver.Value) error { return nil }); err != nil {
				return nil, b.end(ctx, err)
			}
		}
	}
	if err := s.ask(ctx, tokens); err != nil {
		return nil, b.end(ctx, err)
	}
	s.passed(tokens)
	return b, nil
}

// end commits if err is nil and rolls back otherwise, and returns what is to be
// told to the caller.
func (b *bracket) end(ctx context.Context, err error) error {
	s := b.session
	switch {
	case b.tx != nil && err == nil:
		err = onceOnly(s.commit(ctx, b.tx))
	case b.tx != nil:
		if rollbackErr := s.rollback(ctx, b.tx); rollbackErr != nil {
			s.broken = true
		}
		if s.native != nil && s.native.Alone(err) {
			return &guard.UnsupportedError{Kind: kindOf(s.decision.plan), Reason: "it does not run inside of a transaction, in which it is to be checked",
				Advice: "run it under guard.Without", Err: err}
		}
	case b.saved && err == nil:
		if err = s.run(ctx, release, nil); err != nil {
			err = onceOnly(err)
			s.unsave(ctx)
		}
	case b.saved:
		// What a failed statement leaves behind, by ON CONFLICT FAIL for one,
		// is as SQLite left it: the savepoint is not rolled back.
		if s.finally(ctx, release) != nil {
			s.unsave(ctx)
		}
	}
	if err == nil {
		return nil
	}
	return s.failed(ctx, err, b.tokens)
}

// commit ends a transaction of our own. On MySQL, completion_type would let a plain
// COMMIT begin another, or end the session.
func (s *session) commit(ctx context.Context, tx driver.Tx) error {
	if s.engine == sqlgen.MySQL {
		return s.run(context.WithoutCancel(ctx), "COMMIT AND NO CHAIN NO RELEASE", nil)
	}
	return tx.Commit()
}

func (s *session) rollback(ctx context.Context, tx driver.Tx) error {
	if s.engine == sqlgen.MySQL {
		return s.finally(ctx, rollbackMySQL)
	}
	return tx.Rollback()
}

// unsave undoes what was done since the savepoint, if it is still there.
func (s *session) unsave(ctx context.Context) {
	err := s.finally(ctx, rollbackTo)
	if err == nil {
		err = s.finally(ctx, release)
	}
	// SQLite has rolled back the whole transaction if the savepoint is gone.
	if err != nil && !strings.Contains(err.Error(), "no such savepoint") {
		s.broken = true
	}
}

// finally executes what must be executed although the context may have ended.
func (s *session) finally(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	return s.run(ctx, text, nil)
}

// databases is what is known of the databases of an SQLite connection.
type databases uint8

const (
	unasked databases = iota
	mainOnly
	several
)

// attached reports whether databases other than main and temp are attached.
func (s *session) attached(ctx context.Context) (bool, error) {
	if s.databases == unasked {
		found := mainOnly
		err := s.read(ctx, "PRAGMA database_list", nil, func(row []driver.Value) error {
			if len(row) < 2 {
				return errors.New("sqlfence: PRAGMA database_list gives no names")
			}
			// temp is seen by this connection alone: there is nobody to fence.
			if name, ok := asString(row[1]); !ok || (name != "main" && name != "temp") {
				found = several
			}
			return nil
		})
		if err != nil {
			return false, err
		}
		s.databases = found
	}
	return s.databases == several, nil
}

// counts reports whether a spliced write that returns no rows is executed for the
// number of the rows that it wrote, though its rows are asked for: no row is no proof
// of a refusal then, and whoever closes the rows unread learns of one too. On
// PostgreSQL the fence raises an error of its own; on SQLite a setting of old makes a
// row of each number, and a driver may execute when the first row is read, with its
// errors then (mattn/go-sqlite3): of modernc's it is known that it does not.
func (s *session) counts(ctx context.Context, d *decision) (bool, error) {
	if !d.plan.AskOnZero() || d.plan.Returns() {
		return false, nil
	}
	if s.engine != sqlgen.SQLite {
		return true, nil
	}
	if t := reflect.TypeOf(s.raw); t.Kind() != reflect.Pointer || t.Elem().PkgPath() != "modernc.org/sqlite" {
		return false, nil
	}
	makesRows := true
	err := s.read(ctx, "PRAGMA count_changes", nil, func(row []driver.Value) error {
		makesRows = len(row) != 1 || row[0] != int64(0)
		return nil
	})
	return !makesRows, err
}

// eachRow reads all rows and closes them.
func eachRow(r driver.Rows, row func([]driver.Value) error) error {
	dest := make([]driver.Value, len(r.Columns()))
	for {
		err := r.Next(dest)
		if err == nil {
			err = row(dest)
		}
		if err == io.EOF {
			return r.Close()
		}
		if err != nil {
			_ = r.Close() // the first error is the cause
			return err
		}
	}
}
