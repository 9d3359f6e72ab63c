package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// What MySQL and MariaDB do not tell of a connection, and other drivers know, is
// asked here: in which database the fence is, and whether a transaction is open.

// FenceDatabase tells how to read off a data source name in which database the
// connections begin, which is where their fence is (MySQL and MariaDB): the text of
// every check names it, so that USE does not move the fence. Without this option,
// and for connectors, it is asked on a connection opened for the question, at the
// first guarded write. Other engines ignore it.
func FenceDatabase(of func(dataSourceName string) (string, error)) Option {
	return func(c *config) { c.databaseOf = of }
}

// place is where the fence of a connector is, and the plans of texts for there.
type place struct {
	name    string
	options []sqlgen.Option
	cache   *sqlgen.Cache
}

func placeAt(engine sqlgen.Engine, name string) *place {
	options := []sqlgen.Option{sqlgen.Database(name)}
	return &place{name: name, options: options, cache: sqlgen.NewCache(engine, options...)}
}

// locate finds out where the fence is.
func (s *session) locate(ctx context.Context) error {
	if s.engine != sqlgen.MySQL {
		return nil
	}
	p := s.place.Load()
	if p == nil {
		raw, err := s.connect(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = raw.Close() }() // it has said what it had to say
		name := ""
		asking := &session{raw: raw, shared: s.shared}
		err = asking.read(ctx, "SELECT DATABASE() LIMIT 1", nil, func(row []driver.Value) error {
			name, _ = asString(row[0]) // NULL: none
			return nil
		})
		if err != nil {
			return onceOnly(s.ofEngine(err))
		}
		p = placeAt(s.engine, name)
		s.place.Store(p)
	}
	if p.name == "" {
		return &guard.SetupError{
			Problem: "the connection begins in no database, and the fence is in the one that it begins in",
			Remedy:  "name it in the data source name",
		}
	}
	return nil
}

// sqlOptions returns what is known of the sessions, for sqlgen.
func (s *shared) sqlOptions() []sqlgen.Option {
	if p := s.place.Load(); p != nil {
		return p.options
	}
	return s.untilExpiry()
}

// commits is what is known of autocommit.
type commits uint8

const (
	commitsUnasked commits = iota
	commitsItself          // each statement outside of a transaction
	commitsNever           // a transaction is always open
)

// doubt notes that a transaction may have begun or ended.
func (s *session) doubt(p *sqlgen.Plan, err error) {
	switch p.Kind {
	case sqlgen.KindRead, sqlgen.KindInsert, sqlgen.KindUpdate, sqlgen.KindDelete, sqlgen.KindSavepoint, sqlgen.KindRelease, sqlgen.KindRollbackTo:
		s.unsure = s.unsure || err != nil || p.Commits
	case sqlgen.KindBegin:
		s.unsure = err != nil
	case sqlgen.KindCommit, sqlgen.KindRollback, sqlgen.KindPrepareTx, sqlgen.KindEmpty:
		s.unsure = true // completion_type may have begun another
	case sqlgen.KindSession:
		s.unsure, s.commits = true, commitsUnasked // a SET of what was not understood
	default:
		s.unsure, s.commits, s.mayBeXA, s.recoded = true, commitsUnasked, true, true
	}
	s.mayBeXA = s.mayBeXA || strings.HasPrefix(p.Verb, "XA ")
}

// legible makes sure that the server reads texts as they are read here. What a data
// source name or a SET says of the client's character set is read off; a connector's
// own is asked once, and that of a session behind what may have changed it.
func (s *session) legible(ctx context.Context) error {
	if s.engine != sqlgen.MySQL || s.fake != nil || !s.recoded && s.charset.Load() {
		return nil
	}
	name := ""
	if err := s.read(ctx, "SELECT @@SESSION.character_set_client, VERSION() LIMIT 1", nil, func(row []driver.Value) error {
		name, _ = asString(row[0])
		version, _ := asString(row[1])
		s.maria.Store(strings.Contains(version, "MariaDB"))
		return nil
	}); err != nil {
		return s.ofEngine(err)
	}
	if !sqlgen.SafeCharset(name) {
		return &guard.SetupError{
			Problem: fmt.Sprintf("the session's character_set_client is %q: strings end elsewhere than they seem to", name),
			Remedy:  "use utf8mb4",
		}
	}
	if !s.recoded {
		s.charset.Store(true)
	}
	s.recoded = false
	return nil
}

// inXA reports whether a transaction of XA is open, in which a guarded write is
// refused: XA PREPARE lets go of the shared lock on the fence, and XA COMMIT would
// land the write behind a takeover. It is asked by ending one of another name:
// outside of one, and where it takes no writes any more, that has another error.
func (s *session) inXA(ctx context.Context) (bool, error) {
	if !s.mayBeXA {
		return false, nil
	}
	const wrongState, otherName = 1399, 1397
	err := s.run(ctx, "XA END 'sqlfence: is one open?'", nil)
	switch guard.ServerNumber(err) {
	case wrongState:
		s.mayBeXA = false
		return false, nil
	case otherName:
		return true, nil
	}
	if err == nil {
		s.broken = true // somebody uses that name
		err = driver.ErrBadConn
	}
	return false, err
}

func withinXA(p *sqlgen.Plan) error {
	return &guard.UnsupportedError{Kind: kindOf(p), Reason: "a transaction of XA, once prepared, does not hold the fence shut",
		Advice: "write in one begun by BeginTx, or run it under guard.Without"}
}

// open reports whether a transaction is open on MySQL or MariaDB, which is asked
// where there is a doubt: a deadlock ends one, and so does every definition; and
// to begin one in another would commit that.
func (s *session) open(ctx context.Context) (bool, error) {
	if s.commits == commitsUnasked {
		var on int64
		err := s.read(ctx, "SELECT @@SESSION.autocommit LIMIT 1", nil, func(row []driver.Value) (err error) {
			on, err = asInt(row[0])
			return err
		})
		if err != nil {
			return false, err
		}
		s.commits = commitsItself
		if on == 0 {
			s.commits = commitsNever
		}
	}
	if s.commits != commitsNever && s.tx == nil && !s.textual && !s.unsure {
		return false, nil
	}
	// The one question that both families answer and that changes nothing: a
	// savepoint is one within a transaction only, or without autocommit.
	const noSavepoint = 1305
	if err := s.run(ctx, savepoint, nil); err != nil {
		return false, err
	}
	err := s.run(ctx, "RELEASE SAVEPOINT sqlfence_check", nil)
	if err != nil && guard.ServerNumber(err) != noSavepoint {
		return false, err
	}
	s.textual = s.tx == nil && err == nil
	s.unsure = s.tx != nil
	return err == nil, nil
}

// outlived finds out whether a transaction that a text has begun with tokens is
// still there: its tokens end with it.
func (s *session) outlived(ctx context.Context) error {
	if s.tx != nil || s.txTokens == nil || !s.unsure {
		return nil
	}
	var err error
	switch {
	case s.engine == sqlgen.MySQL:
		_, err = s.open(ctx)
	case s.engine == sqlgen.PostgreSQL && s.native == nil:
		_, err = s.within(ctx)
	}
	return err
}

// rollbackMySQL says NO CHAIN because completion_type may say otherwise.
const rollbackMySQL = "ROLLBACK AND NO CHAIN NO RELEASE"

// refuseOnMySQL ends the transaction, if there is one, for refuse.
func (s *session) refuseOnMySQL(ctx context.Context, err error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if s.tx == nil {
		open, askErr := s.open(bounded)
		if askErr != nil {
			s.broken = true
			return
		}
		if !open {
			return
		}
	}
	if s.run(bounded, rollbackMySQL, nil) != nil {
		s.broken = true
	}
	s.refused = err
}

// watches reports whether errors are to be looked at: the program's transaction,
// which MySQL may end as a whole at any of them, is a guarded one.
func (s *session) watches() bool {
	return s.engine == sqlgen.MySQL && (s.holds || s.txTokens != nil) && s.refused == nil && !s.broken
}

// lost ends a guarded transaction that the server has rolled back because of err, or
// may have: without that, what follows would be committed statement by statement
// (SPEC G8). Each further statement and the commit then fail with that err.
func (s *session) lost(ctx context.Context, err error) {
	if err == nil || !s.watches() {
		return
	}
	switch guard.ServerNumber(err) {
	case 1213, // deadlock; a node of Galera that was overruled
		1020,             // the row has changed since the snapshot
		1467,             // the next AUTO_INCREMENT value was not to be had: a deadlock that the server does not know of
		1206,             // too many locks
		1402, 1613, 1614, // a transaction of XA that was rolled back
		3101: // rolled back at commit, by group replication
		s.refuse(ctx, &rolledBackError{err})
	case 1205: // a wait for a lock: the statement, or with innodb_rollback_on_timeout all
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		if open, askErr := s.open(bounded); askErr != nil || !open {
			s.refuse(ctx, &rolledBackError{err})
		}
	}
}

// rolledBackError is what a transaction is told that the server has rolled back.
type rolledBackError struct{ cause error }

func (e *rolledBackError) Error() string {
	return "sqlfence: the server has rolled the transaction back: " + e.cause.Error()
}

func (e *rolledBackError) Unwrap() error { return e.cause }

// asInt returns the number in a column: servers of this family send it as text
// where nothing was prepared.
func asInt(v driver.Value) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case []byte:
		return strconv.ParseInt(string(v), 10, 64)
	case string:
		return strconv.ParseInt(v, 10, 64)
	}
	return 0, fmt.Errorf("sqlfence: a number reads as %T", v)
}

// inline reports whether a guarded statement that the driver wants prepared is
// prepared here: database/sql would prepare the bare text first, for nothing. A
// driver that checks its values by the connection has checked them by now as the
// statement would.
func (s *session) inline(err error) bool {
	if !errors.Is(err, driver.ErrSkip) {
		return false
	}
	_, checks := s.raw.(driver.NamedValueChecker)
	return checks
}
