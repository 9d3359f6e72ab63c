package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ngrok/sqlmw"

	"github.com/sqlfence/sqlfence/driver/internal/native"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

var _ sqlmw.Interceptor = (*session)(nil)

// session is the interceptor of one connection, and holds what is known of it:
// its transaction, the tokens that the transaction was begun with, and whether
// the fence has refused it. Like the connection, it is used by one goroutine at
// a time.
type session struct {
	sqlmw.NullInterceptor
	*shared
	raw    driver.Conn
	native native.Conn // nil where no package of the engine knows the connection

	tx       driver.Tx     // the raw transaction of BeginTx; nil outside
	textual  bool          // text has begun a transaction, as far as texts tell
	txTokens []guard.Token // what the open transaction was begun with

	outermost string // SQLite: the savepoint that has begun the transaction, "" if none has

	// refused is the refusal for which the open transaction was rolled back
	// (SPEC G8). Until the program ends that transaction, it is the answer to
	// everything.
	refused error
	// broken: a roll-back failed, so nobody knows in which state the
	// connection is. It is given up.
	broken bool

	bounded bool // the open transaction has its bounds, as far as texts tell

	kept    []guard.Token // PostgreSQL: what the transaction of BeginTx has passed for good
	touched bool          // PostgreSQL: a guarded statement was executed in the open transaction
	nested  bool          // a savepoint may be open in it, or it may be another one

	unsure  bool    // MySQL: a transaction may have begun or ended
	commits commits // MySQL: whether statements commit by themselves
	mayBeXA bool    // MySQL: a transaction of XA may be open
	recoded bool    // MySQL: the client's character set may be another one
	holds   bool    // MySQL: the open transaction has had a guarded statement

	databases databases // SQLite: whether other databases are attached
	fileAsked bool      // SQLite: for file
	file      string    // SQLite: the file of main, "" where there is none

	boxedFor []guard.Token  // the tokens whose arguments are in boxed
	boxed    []driver.Value // resource, epoch, grant of each
	wide     bool           // a resource of theirs is not plain ASCII

	decision decision    // of the statement that is being executed
	prepared *prepared   // what ConnPrepareContext made last, for conn
	rows     driver.Rows // what ConnQueryContext or a statement made last, for conn and stmt
}

// way is how a statement is executed.
type way uint8

const (
	plain   way = iota // as it is
	spliced            // with the fence spliced in
	checked            // as it is, after a check in the same transaction
)

// decision is what is done with one execution of a text.
type decision struct {
	way    way
	plan   *sqlgen.Plan // nil where nobody asked
	tokens []guard.Token
	after  driver.Stmt // what direct has prepared, to be closed with the rows
	text   string
	args   []driver.NamedValue
	lead   int    // of args, how many are options of the driver
	fenced string // the text with the fence spliced in
}

// target is where a statement is executed: directly on the connection, or
// prepared on it. tokens is the number of tokens that are spliced in; 0 is the
// text as it is.
type target interface {
	exec(ctx context.Context, d *decision, tokens int, args []driver.NamedValue) (driver.Result, error)
	query(ctx context.Context, d *decision, tokens int, args []driver.NamedValue) (driver.Rows, error)
}

// unconcerned reports that the text can be sent to the raw connection without
// further ado: no token and no policy is about it, and it changes nothing that
// the session keeps track of.
func (s *session) unconcerned(ctx context.Context, text string) bool {
	return s.refused == nil && !s.broken && s.txTokens == nil && !s.holds && !s.policy.Watches() &&
		guard.Tokens(ctx) == nil && !s.tracks(text)
}

// tracks reports whether executing the text may change what the session keeps
// track of. False alarms cost time only.
func (s *session) tracks(text string) bool {
	if s.native != nil && s.txTokens == nil && !s.bounded && (s.tx == nil || s.engine != sqlgen.PostgreSQL) {
		return false // the connection itself tells whether a transaction is open
	}
	return sqlgen.MayChangeTransaction(s.engine, text)
}

// decide says what is to be done with the text. The decision is valid until the
// next one. The error is final: nothing is to be sent.
func (s *session) decide(ctx context.Context, text string, args []driver.NamedValue, query bool) (*decision, error) {
	d := &s.decision
	*d = decision{text: text, args: args}
	if s.broken {
		return d, driver.ErrBadConn // nothing of this statement was sent
	}
	if s.engine == sqlgen.MySQL && s.tracks(text) && hidesFence(text) {
		return d, hiding()
	}
	tokens := guard.Tokens(ctx)
	if tokens == nil {
		if guard.IsWithout(ctx) {
			return d, nil
		}
		if err := s.outlived(ctx); err != nil {
			return d, err
		}
		tokens = s.inherited()
	}
	if tokens == nil && !s.policy.Watches() {
		return d, nil
	}
	if err := s.legible(ctx); err != nil {
		return d, err
	}
	if err := s.resolve(ctx, d, query); err != nil {
		return d, err
	}
	d.plan = s.plan(d.text)
	if tokens == nil {
		return d, s.policy.Report(d.plan, s.policy.CheckUnguarded(d.plan))
	}
	d.tokens = tokens
	if d.plan.Strategy == sqlgen.Refuse && !d.plan.Writes() {
		return d, s.policy.Report(d.plan, refusal(d.plan)) // a transaction of XA
	}
	if !s.policy.Guards(d.plan) {
		return d, nil
	}
	if err := s.policy.CheckBound(d.plan, tokens); err != nil {
		if err = s.policy.Report(d.plan, err); err != nil {
			return d, err
		}
	}
	switch d.plan.Strategy {
	case sqlgen.Pass:
		return d, nil
	case sqlgen.Splice:
		d.way = spliced
		if s.policy.EndsAtExpiry() && s.engine != sqlgen.PostgreSQL {
			// A write that shows no row is asked about afterwards, and a lease can
			// have expired, or a clock have been set back, between the two.
			d.way = checked
		}
	case sqlgen.CheckFirst:
		d.way = checked
	case sqlgen.CheckInTransaction:
		// The server's word counts, not that of the texts: outside of a
		// transaction the procedure could commit, and write on unguarded.
		if !s.inTransaction() {
			return d, s.unguarded(ctx, d, refusal(d.plan))
		}
		d.way = checked
	default:
		return d, s.unguarded(ctx, d, refusal(d.plan))
	}
	if err := s.box(ctx, tokens); err != nil {
		return d, err
	}
	if s.fake != nil {
		d.way = plain
		return d, s.failed(ctx, s.fake.Check(ctx, tokens...), tokens)
	}
	if s.engine == sqlgen.MySQL {
		if err := s.locate(ctx); err != nil {
			return d, err
		}
		d.plan = s.plan(d.text) // it names the place
		xa, err := s.inXA(ctx)
		if err != nil {
			return d, err
		}
		if xa {
			d.way = plain
			return d, s.unguarded(ctx, d, withinXA(d.plan))
		}
		s.holds = s.inTransaction()
	}
	s.pass(ctx, tokens)
	if err := s.verify(ctx, tokens); err != nil {
		return d, err
	}
	if err := s.observe(ctx, tokens); err != nil {
		return d, err
	}
	s.touched = s.engine == sqlgen.PostgreSQL && s.inTransaction()
	if err := s.bound(ctx); err != nil {
		return d, err
	}
	if d.way == spliced {
		fits, err := s.fits(ctx, d)
		if err != nil {
			return d, err
		}
		if !fits {
			d.way = checked
		}
	}
	return d, nil
}

// plan returns what is known of the text in the session's present state.
func (s *session) plan(text string) *sqlgen.Plan {
	if s.native != nil && !s.native.Misread() && s.usual() {
		return s.standard.Plan(text)
	}
	if p := s.place.Load(); p != nil {
		return p.cache.Plan(text)
	}
	return s.cache.Plan(text)
}

// usual reports that the server, as things are, reads texts as the standard cache does.
func (s *session) usual() bool {
	return s.native.StandardStrings() && safeEncodings[s.native.Encoding()]
}

// look comes before each text of the program's that is sent. A statement is executed as it was read when
// it was prepared, whatever the session is set to later, so that a text which depends
// on the settings is noted while they are unusual. They are known then: the server
// tells of a change with the answer to what has changed them.
func (s *session) look(text string, args []driver.NamedValue) {
	if s.native == nil || s.usual() || s.native.Misread() {
		return
	}
	_, rewritten := s.native.Leading(args, true)
	if rewritten || s.cache.Plan(text).Kind == sqlgen.KindUnknown { // this cache assumes no settings
		s.native.Misreads()
	}
}

// safeEncodings are those of PostgreSQL in which every byte below 0x80 is a
// character of its own: all but those that it takes from clients only ("Supported
// Character Sets" in its documentation). One that is unheard of is not among them.
var safeEncodings = map[string]bool{
	"UTF8": true, "SQL_ASCII": true, "EUC_CN": true, "EUC_JP": true, "EUC_JIS_2004": true, "EUC_KR": true, "EUC_TW": true,
	"ISO_8859_5": true, "ISO_8859_6": true, "ISO_8859_7": true, "ISO_8859_8": true, "KOI8R": true, "KOI8U": true,
	"LATIN1": true, "LATIN2": true, "LATIN3": true, "LATIN4": true, "LATIN5": true, "LATIN6": true, "LATIN7": true,
	"LATIN8": true, "LATIN9": true, "LATIN10": true, "WIN866": true, "WIN874": true, "WIN1250": true, "WIN1251": true,
	"WIN1252": true, "WIN1253": true, "WIN1254": true, "WIN1255": true, "WIN1256": true, "WIN1257": true, "WIN1258": true,
}

// fits reports whether the fence can be spliced into this execution of a text
// that takes it, and if so how it reads. Where not, a check in the same
// transaction does the same at a higher price.
func (s *session) fits(ctx context.Context, d *decision) (bool, error) {
	if len(d.args)-d.lead != d.plan.Params {
		// The arguments of the fence would be bound to the user's parameters,
		// or his to those of the fence. As it is, the text gets what the bare
		// driver has to say about it.
		return false, nil
	}
	text, err := d.plan.Guarded(len(d.tokens))
	if err != nil {
		return false, nil // there are too many parameters already (CASES D24)
	}
	d.fenced = text
	if s.engine == sqlgen.MySQL {
		return s.maria.Load() || !d.plan.WrapsParam(), nil
	}
	if s.engine != sqlgen.SQLite {
		return true, nil
	}
	if numbersBeyond(d.text, d.plan.Params) {
		return false, nil
	}
	attached, err := s.attached(ctx)
	// An unqualified name may be a table of an attached database, and writing
	// that would not lock the marks in main.
	return !attached, err
}

// numbersBeyond reports whether $n with n above params can stand in the text.
// For SQLite such a parameter is a name like any other, but modernc.org/sqlite
// binds to it the n-th argument, which would be one of the fence.
func numbersBeyond(text string, params int) bool {
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			return false
		}
		text = text[i+1:]
		digits := 0
		for digits < len(text) && '0' <= text[digits] && text[digits] <= '9' {
			digits++
		}
		if digits == 0 {
			continue
		}
		if n, err := strconv.Atoi(text[:digits]); err != nil || n > params {
			return true
		}
	}
}

// forget lets go of the arguments of the statement.
func (s *session) forget() { s.decision = decision{} }

func refusal(p *sqlgen.Plan) error {
	return &guard.UnsupportedError{Kind: kindOf(p), Reason: p.Reason, Advice: p.Advice}
}

// kindOf returns what a refusal calls the statement.
func kindOf(p *sqlgen.Plan) string {
	if p.Verb == "" || p.Kind == sqlgen.KindSeveral || p.Kind == sqlgen.KindWriteInWith {
		return p.Kind.String()
	}
	return p.Verb
}

// inherited returns the tokens of the open transaction.
func (s *session) inherited() []guard.Token {
	if s.txTokens != nil && s.tx == nil && !s.inTransaction() {
		s.txTokens = nil // a transaction begun by text has ended
	}
	return s.txTokens
}

// inTransaction reports whether a transaction is open: exactly where the
// connection tells, else as far as calls and texts tell.
func (s *session) inTransaction() bool {
	if s.native != nil {
		return s.native.InTransaction()
	}
	return s.tx != nil || s.textual || s.commits == commitsNever
}

// exec executes a statement that may concern the fence.
func (s *session) exec(ctx context.Context, t target, text string, args []driver.NamedValue) (driver.Result, error) {
	if s.refused != nil {
		return driver.RowsAffected(0), s.answer(text)
	}
	defer s.forget()
	d, err := s.decide(ctx, text, args, false)
	if err != nil {
		return nil, err
	}
	s.look(d.text, d.args)
	switch d.way {
	case spliced:
		return s.execSpliced(ctx, t, d)
	case checked:
		b, err := s.bracket(ctx, d.tokens)
		if err != nil {
			return nil, err
		}
		res, err := t.exec(ctx, d, 0, d.args)
		if err = b.end(ctx, err); err != nil {
			return nil, err
		}
		return res, nil
	}
	res, err := t.exec(ctx, d, 0, d.args)
	s.track(d, err)
	s.lost(ctx, err)
	return res, err
}

// execSpliced executes a statement that the fence is in.
func (s *session) execSpliced(ctx context.Context, t target, d *decision) (driver.Result, error) {
	args := s.guarded(d, true)
	res, err := t.exec(ctx, d, len(d.tokens), args)
	if err != nil {
		err = s.placed(err, d.sent(t, args))
		return nil, s.hidden(ctx, d, s.unmasked(ctx, d.tokens, s.failed(ctx, err, d.tokens)))
	}
	if d.plan.AskOnZero() {
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			if err := s.askAfter(ctx, d.tokens); err != nil {
				return nil, err
			}
		}
	}
	s.passed(d.tokens)
	return res, nil
}

// query executes a statement that may concern the fence and returns its rows.
func (s *session) query(ctx context.Context, t target, text string, args []driver.NamedValue) (driver.Rows, error) {
	if s.refused != nil {
		return noRows{}, s.answer(text)
	}
	defer s.forget()
	d, err := s.decide(ctx, text, args, true)
	if err != nil {
		return nil, err
	}
	s.look(d.text, d.args)
	switch d.way {
	case spliced:
		if counted, err := s.counts(ctx, d); err != nil {
			return nil, err
		} else if counted {
			_, err := s.execSpliced(ctx, t, d)
			return noRows{}, err
		}
		args := s.guarded(d, false)
		raw, err := t.query(ctx, d, len(d.tokens), args)
		if err != nil {
			err = s.placed(err, d.sent(t, args))
			return nil, s.hidden(ctx, d, s.unmasked(ctx, d.tokens, s.failed(ctx, err, d.tokens)))
		}
		return newRows(&rows{session: s, ctx: ctx, raw: raw, after: d.after, tokens: d.tokens, spliced: true, sent: d.sent(t, args), ask: d.plan.AskOnZero() || d.plan.Raises() && d.plan.Returns(), returns: d.plan.Returns()}), nil
	case checked:
		b, err := s.bracket(ctx, d.tokens)
		if err != nil {
			return nil, err
		}
		raw, err := t.query(ctx, d, 0, d.args)
		if err == nil && !b.open() {
			return newRows(&rows{session: s, ctx: ctx, raw: raw, after: d.after, tokens: d.tokens}), nil
		}
		// The bracket is closed before a row is handed out: rows that were
		// read before a failing commit would have been lies.
		var read *readRows
		if err == nil {
			read, err = readAll(raw)
			if d.after != nil {
				err = errors.Join(err, d.after.Close())
			}
		}
		if err = b.end(ctx, err); err != nil {
			return nil, err
		}
		return read, nil
	}
	raw, err := t.query(ctx, d, 0, d.args)
	s.track(d, err)
	s.lost(ctx, err)
	if err == nil && s.watches() {
		return newRows(&rows{session: s, ctx: ctx, raw: raw}), nil
	}
	return raw, err
}

// ConnExecContext implements [sqlmw.Interceptor].
func (s *session) ConnExecContext(ctx context.Context, _ driver.ExecerContext, text string, args []driver.NamedValue) (driver.Result, error) {
	return s.exec(ctx, (*direct)(s), text, args)
}

// ConnQueryContext implements [sqlmw.Interceptor].
func (s *session) ConnQueryContext(ctx context.Context, _ driver.QueryerContext, text string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	var err error
	s.rows, err = s.query(ctx, (*direct)(s), text, args)
	return ctx, s.rows, err
}

// takeRows returns what the last query made.
func (s *session) takeRows() driver.Rows {
	r := s.rows
	s.rows = nil
	return r
}

// takePrepared returns what the last Prepare made.
func (s *session) takePrepared() *prepared {
	p := s.prepared
	s.prepared = nil
	return p
}

// ConnPrepareContext implements [sqlmw.Interceptor]. The text is prepared as it
// is: which token will guard it, if any, is known when it is executed (SPEC G9).
func (s *session) ConnPrepareContext(ctx context.Context, _ driver.ConnPrepareContext, text string) (context.Context, driver.Stmt, error) {
	if s.refused != nil {
		return ctx, nil, s.refused
	}
	if s.broken {
		return ctx, nil, driver.ErrBadConn
	}
	s.look(text, nil)
	raw, err := s.prepare(ctx, text)
	if err != nil {
		return ctx, nil, err
	}
	s.prepared = &prepared{session: s, text: text, raw: raw, recoded: s.recoded}
	return ctx, s.prepared, nil
}

// ConnPing implements [sqlmw.Interceptor].
func (s *session) ConnPing(ctx context.Context, raw driver.Pinger) error {
	if s.broken {
		return driver.ErrBadConn
	}
	return raw.Ping(ctx)
}

// guarded returns the arguments of a spliced statement: the caller's, and among or
// behind them three for each token.
func (s *session) guarded(d *decision, exec bool) []driver.NamedValue {
	values := len(d.args) - d.lead
	at := d.lead + d.plan.At
	args := make([]driver.NamedValue, at, len(d.args)+1+len(s.boxed))
	copy(args, d.args)
	if values == 0 && exec && s.native != nil {
		if option, ok := s.native.Unprepared(); ok {
			args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: option})
		}
	}
	for _, v := range s.boxed {
		args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: v})
	}
	for _, a := range d.args[at:] {
		a.Ordinal = len(args) + 1
		args = append(args, a)
	}
	return args
}

// box prepares the arguments of the tokens, which stay the same from statement
// to statement. The tokens of a context never change, so that the place where
// they are stored tells whether they are the same.
func (s *session) box(ctx context.Context, tokens []guard.Token) error {
	if len(tokens) == len(s.boxedFor) && &tokens[0] == &s.boxedFor[0] {
		if s.wide {
			return s.spellsNames(ctx)
		}
		return nil
	}
	wide := false
	boxed := make([]driver.Value, 0, len(tokens)*sqlgen.TokenParams)
	for _, t := range tokens {
		if err := t.Validate(); err != nil {
			return err
		}
		boxed = append(boxed, sqlgen.ResourceParam(s.engine, t.Resource), t.Epoch, t.Grant)
		wide = wide || strings.ContainsFunc(t.Resource, func(r rune) bool { return r >= utf8.RuneSelf })
	}
	if wide {
		if err := s.spellsNames(ctx); err != nil {
			return err
		}
	}
	s.boxedFor, s.boxed, s.wide = tokens, boxed, wide
	return nil
}

// spellsNames makes sure that PostgreSQL takes the names of resources for what
// they are. They are sent as UTF-8; under another client_encoding the server would
// read another name, whose mark says nothing about this token.
func (s *session) spellsNames(ctx context.Context) error {
	if s.engine != sqlgen.PostgreSQL {
		return nil
	}
	var encoding string
	if s.native != nil {
		encoding = s.native.Encoding()
	} else if err := s.read(ctx, "SHOW client_encoding", nil, func(row []driver.Value) error {
		encoding, _ = asString(row[0])
		return nil
	}); err != nil {
		return err
	}
	if encoding == "UTF8" || encoding == "SQL_ASCII" { // of the second nothing is converted
		return nil
	}
	return &guard.SetupError{
		Problem: fmt.Sprintf("the token's resource is not plain ASCII, and the session's client_encoding is %q", encoding),
		Remedy:  "set client_encoding to UTF8",
	}
}

// resolve separates the options of the driver from the values, and lets an
// option rewrite the text now: later it would throw away the arguments of the
// fence, or bind them to parameters of its own.
func (s *session) resolve(ctx context.Context, d *decision, query bool) error {
	if len(d.args) == 0 {
		return nil
	}
	if s.native == nil {
		for i := range d.args {
			if rewrites(d.args[i].Value) {
				return &guard.UnsupportedError{
					Kind:   fmt.Sprintf("a statement with a %T", d.args[i].Value),
					Reason: "it rewrites the text, and this driver was registered without knowledge of it",
					Advice: "use the driver of the package driver/postgres, or pass plain arguments",
				}
			}
		}
		return nil
	}
	var again bool
	d.lead, again = s.native.Leading(d.args, query)
	if !again {
		return nil
	}
	var err error
	if d.text, d.args, err = s.native.Rewrite(ctx, d.text, d.args, query); err != nil {
		return err
	}
	if d.lead, again = s.native.Leading(d.args, query); again {
		return &guard.UnsupportedError{Kind: "a statement with a query rewriter", Reason: "what it returns is to be rewritten again",
			Advice: "pass one rewriter"}
	}
	return nil
}

// direct is the connection as a target.
type direct session

func (c *direct) exec(ctx context.Context, d *decision, tokens int, args []driver.NamedValue) (driver.Result, error) {
	res, err := execOn(ctx, c.raw, d.textFor(tokens), args)
	if err == nil || d.way == plain || !(*session)(c).inline(err) {
		return res, err
	}
	stmt, err := (*session)(c).prepare(ctx, d.textFor(tokens))
	if err != nil {
		return nil, err
	}
	defer func() { _ = stmt.Close() }() // the statement has been executed
	if err := fitting(stmt, args); err != nil {
		return nil, err
	}
	return execStmt(ctx, stmt, args)
}

func (c *direct) query(ctx context.Context, d *decision, tokens int, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := queryOn(ctx, c.raw, d.textFor(tokens), args)
	if err == nil || d.way == plain || !(*session)(c).inline(err) {
		return rows, err
	}
	stmt, err := (*session)(c).prepare(ctx, d.textFor(tokens))
	if err != nil {
		return nil, err
	}
	if err := fitting(stmt, args); err != nil {
		_ = stmt.Close() // err is the cause
		return nil, err
	}
	rows, err = queryStmt(ctx, stmt, args)
	if err != nil {
		_ = stmt.Close() // err is the cause
		return nil, err
	}
	d.after = stmt
	return rows, nil
}

// fitting says what database/sql says of arguments that are too many or too few.
func fitting(stmt driver.Stmt, args []driver.NamedValue) error {
	if n := stmt.NumInput(); n >= 0 && n != len(args) {
		return fmt.Errorf("sql: expected %d arguments, got %d", n, len(args))
	}
	return nil
}

func (d *decision) textFor(tokens int) string {
	if tokens == 0 {
		return d.text
	}
	return d.fenced
}
