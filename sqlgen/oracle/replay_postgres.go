package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// The fence of a replay: its mark, the token that passes, one that is stale.
const (
	replayResource = "oracle"
	replayEpoch    = "5"
	replayGrant    = "7"
	staleEpoch     = "4"
)

// fencedState is the SQLSTATE of a refused token.
const fencedState = "SF001"

// outcome is what a statement did, as far as a client sees it.
type outcome struct {
	State  string // SQLSTATE; "" for success
	Error  string
	Tag    string
	Fields []string
	Rows   []string
}

func (o outcome) same(other outcome) bool {
	return o.State == other.State && o.Tag == other.Tag && slices.Equal(o.Fields, other.Fields) && slices.Equal(o.Rows, other.Rows)
}

func (o outcome) String() string {
	if o.State != "" {
		return o.State + " " + o.Error
	}
	rows := strings.Join(o.Rows, " | ")
	if len(rows) > 200 {
		rows = rows[:200] + "…"
	}
	return fmt.Sprintf("%s %v %d rows: %s", o.Tag, o.Fields, len(o.Rows), rows)
}

// corpusCount counts the spliced statements of one corpus, and those that ran
// without error where they were bare.
type corpusCount struct{ spliced, succeeded int }

// postgresReplay replays groups of statements on one server.
type postgresReplay struct {
	dsn   string
	total *tally

	version string
	made    bool // the database is there
	corpora map[string]*corpusCount
	small   bool // the group changes nothing that dropSchemas leaves

	replayed, spliced, checked, alone, succeeded, differing, random, explained, shut, failed int
	reasons                                                                                  map[string]int
}

// run replays a group: bare, bare again (what differs then is random), with the
// fence open, and with the fence shut before each statement.
func (r *postgresReplay) run(ctx context.Context, g group) error {
	var texts []string
	var plans []*sqlgen.Plan
	for _, s := range g.Statements {
		text := asSent(s)
		if skipped(text) {
			continue
		}
		texts = append(texts, text)
		plans = append(plans, sqlgen.Analyze(sqlgen.PostgreSQL, text))
	}
	if !slices.ContainsFunc(plans, func(p *sqlgen.Plan) bool { return p.Strategy == sqlgen.Splice }) {
		return nil
	}
	bare, err := r.replay(ctx, texts, plans, bareMode)
	if err != nil {
		return err
	}
	again, err := r.replay(ctx, texts, plans, bareMode)
	if err != nil {
		return err
	}
	open, err := r.replay(ctx, texts, plans, openMode)
	if err != nil {
		return err
	}
	shut, err := r.replay(ctx, texts, plans, shutMode)
	if err != nil {
		return err
	}
	for i, text := range texts {
		r.replayed++
		if plans[i].Strategy != sqlgen.Splice {
			if !bare[i].same(open[i]) && bare[i].same(again[i]) {
				r.note(text, "", "a statement that is not spliced", bare[i], open[i])
			}
			if plans[i].Strategy == sqlgen.CheckFirst || plans[i].Strategy == sqlgen.CheckInTransaction {
				r.checked++
				r.judgeShut(text, "", bare[i], shut[i])
			}
			continue
		}
		corpus, _, _ := strings.Cut(g.Name, " ")
		if r.corpora[corpus] == nil {
			r.corpora[corpus] = &corpusCount{}
		}
		r.spliced++
		r.corpora[corpus].spliced++
		if bare[i].State == "" {
			r.succeeded++
			r.corpora[corpus].succeeded++
		}
		spliced, _ := plans[i].Guarded(1)
		if !bare[i].same(open[i]) {
			if bare[i].same(again[i]) {
				r.note(text, spliced, "fence open", bare[i], open[i])
			} else {
				r.random++
			}
		}
		r.judgeShut(text, spliced, bare[i], shut[i])
	}
	return nil
}

// judgeShut counts what a statement did under a stale token.
func (r *postgresReplay) judgeShut(text, spliced string, bare, seen outcome) {
	switch seen.State {
	case fencedState:
		r.shut++
	case untried:
	case "": // an error, whichever, undoes the statement; success does not
		r.note(text, spliced, "fence shut", bare, seen)
	default:
		r.failed++
	}
}

// untried is the state of a statement that a stale token was not tried on.
const untried = "untried"

// note counts a difference, as explained or as wrong.
func (r *postgresReplay) note(text, spliced, what string, bare, seen outcome) {
	if why := explanation(text, bare, seen); why != "" {
		r.explained++
		if r.reasons == nil {
			r.reasons = map[string]int{}
		}
		r.reasons[why]++
		return
	}
	r.differing++
	r.total.wrong++
	fmt.Printf("WRONG: replay, %s\n  text:    %s\n  spliced: %s\n  bare:    %s\n  seen:    %s\n", what, quote(text), quote(spliced), bare, seen)
}

// explanation names why a difference is none of sqlgen's making.
func explanation(text string, bare, seen outcome) string {
	switch {
	case seen.State == "0A000" && strings.Contains(seen.Error, "data-modifying statements in WITH"):
		return "0A000: rules that PostgreSQL does not combine with a data-modifying WITH"
	case explainText.MatchString(text) && seen.State == bare.State && slices.Equal(seen.Fields, bare.Fields):
		return "figures of EXPLAIN: buffers, heaps and timings vary from run to run"
	}
	return ""
}

var (
	explainText = regexp.MustCompile(`(?i)explain`) // also in functions that run it
	// What touches more than its own database, or needs a client that talks
	// back.
	skip = regexp.MustCompile(`(?is)^\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*(alter\s+system|create\s+(database|tablespace|subscription)|drop\s+(database|tablespace|owned)|alter\s+(database|tablespace)|copy\b.*\b(stdin|stdout)\b|vacuum|checkpoint|load\b|prepare\s+transaction|reassign)`)
	hang = regexp.MustCompile(`(?i)pg_terminate_backend|pg_promote|pg_sleep|pg_reload_conf|pg_rotate_logfile|infinite_recurse|\bsqlfence\b.*\bdrop\b|test_wait|lo_import|lo_export|pg_switch_wal`)
)

func skipped(text string) bool { return skip.MatchString(text) || hang.MatchString(text) }

type replayMode uint8

const (
	bareMode replayMode = iota
	openMode            // spliced, with the valid token
	shutMode            // first with the stale token, which is what the outcomes tell, then as openMode
)

// replayDatabase is the one that replays run in, one after the other: two at a
// time would meet in what belongs to the whole server.
const (
	replayDatabase = "sqlfence_oracle"
	replayTemplate = "sqlfence_oracle_template"
)

const (
	// replaySettings are those of PostgreSQL's own regression run, and bounds.
	replaySettings = "SET statement_timeout = '10s'; SET lock_timeout = '5s'; SET TimeZone = 'PST8PDT'; " +
		"SET DateStyle = 'Postgres, MDY'; SET intervalstyle = 'postgres_verbose'"
	replayGrants = "GRANT USAGE ON SCHEMA sqlfence TO PUBLIC; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sqlfence TO PUBLIC; " +
		"GRANT INSERT ON sqlfence.nothing TO PUBLIC"
	// dropSchemas leaves nothing but the fence.
	dropSchemas = `DO $$ DECLARE r record; BEGIN
FOR r IN SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'sqlfence') LOOP
	EXECUTE pg_catalog.format('DROP SCHEMA %I CASCADE', r.nspname);
END LOOP; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO PUBLIC; END $$`
	// dropRoles drops what roles an earlier replay has left.
	dropRoles = `DO $$ DECLARE r record; BEGIN
FOR r IN SELECT rolname FROM pg_catalog.pg_roles WHERE oid >= 16384 AND rolname ~ '^(regress|test|jet|some|fdw|my|lo_|priv)' LOOP
	BEGIN EXECUTE pg_catalog.format('DROP ROLE %I', r.rolname); EXCEPTION WHEN OTHERS THEN NULL; END;
END LOOP; END $$`
)

func (r *postgresReplay) connect(ctx context.Context, database string) (*pgconn.PgConn, error) {
	u, err := url.Parse(r.dsn)
	if err != nil {
		return nil, err
	}
	u.Path = "/" + database
	conn, err := pgconn.Connect(ctx, u.String())
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, replaySettings).ReadAll()
	return conn, err
}

// empty connects to the database, in which there is nothing but the fence. A
// new database is dear; the small groups use one after another.
func (r *postgresReplay) empty(ctx context.Context, again bool) (conn *pgconn.PgConn, err error) {
	if again && r.made {
		if conn, err = r.connect(ctx, replayDatabase); err == nil {
			if _, err = conn.Exec(ctx, dropSchemas).ReadAll(); err == nil {
				return conn, nil
			}
			err = conn.Close(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	if !r.made {
		if err := r.makeTemplate(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.admin(ctx, "DROP DATABASE IF EXISTS "+replayDatabase+" WITH (FORCE)", dropRoles,
		"CREATE DATABASE "+replayDatabase+" TEMPLATE "+replayTemplate); err != nil {
		return nil, err
	}
	r.made = true
	return r.connect(ctx, replayDatabase)
}

// makeTemplate makes the database that all others are copied from: with the
// fence, and its mark at the token of the replays.
func (r *postgresReplay) makeTemplate(ctx context.Context) (err error) {
	for _, name := range []string{replayDatabase, replayTemplate} {
		if err := r.admin(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			return err
		}
	}
	if err := r.admin(ctx, "CREATE DATABASE "+replayTemplate); err != nil {
		return err
	}
	conn, err := r.connect(ctx, replayTemplate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	r.version, _, _ = strings.Cut(conn.ParameterStatus("server_version"), " ")
	for _, sql := range []string{sqlgen.Schema(sqlgen.PostgreSQL), replayGrants} {
		if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
			return fmt.Errorf("%w: %s", err, sql)
		}
	}
	if o := execute(ctx, conn, sqlgen.AdvanceSQL(sqlgen.PostgreSQL), nil, []string{replayResource, replayEpoch, replayGrant}); o.State != "" {
		return fmt.Errorf("raising the mark: %s", o)
	}
	return nil
}

// admin executes statements outside of the databases of the replay.
func (r *postgresReplay) admin(ctx context.Context, statements ...string) (err error) {
	conn, err := pgconn.Connect(ctx, r.dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
			return fmt.Errorf("%w: %s", err, sql)
		}
	}
	return nil
}

// replay runs the texts in an empty database and returns what each did.
func (r *postgresReplay) replay(ctx context.Context, texts []string, plans []*sqlgen.Plan, mode replayMode) (outcomes []outcome, err error) {
	conn, err := r.empty(ctx, r.small)
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		if conn.IsClosed() {
			if conn, err = r.connect(ctx, replayDatabase); err != nil {
				return nil, err
			}
		}
		if mode != bareMode && conn.TxStatus() != 'E' && (plans[i].Strategy == sqlgen.CheckFirst || plans[i].Strategy == sqlgen.CheckInTransaction && conn.TxStatus() == 'T') {
			outcomes = append(outcomes, r.behindCheck(ctx, conn, text, mode))
			continue
		}
		if mode == shutMode && plans[i].Strategy != sqlgen.Splice {
			execute(ctx, conn, text, arguments(ctx, conn, text), nil)
			outcomes = append(outcomes, outcome{State: untried})
			continue
		}
		if plans[i].Strategy != sqlgen.Splice || mode == bareMode {
			outcomes = append(outcomes, execute(ctx, conn, text, arguments(ctx, conn, text), nil))
			continue
		}
		spliced, err := plans[i].Guarded(1)
		if err != nil {
			return nil, err
		}
		args := arguments(ctx, conn, text)
		if len(args) < plans[i].Params {
			args = append(args, make([][]byte, plans[i].Params-len(args))...)
		}
		tried := outcome{State: untried}
		if mode == shutMode && conn.TxStatus() != 'E' {
			inTransaction := conn.TxStatus() == 'T'
			if inTransaction {
				execute(ctx, conn, "SAVEPOINT sqlfence_oracle", nil, nil)
			}
			tried = execute(ctx, conn, spliced, args, []string{replayResource, staleEpoch, replayGrant})
			if inTransaction {
				execute(ctx, conn, "ROLLBACK TO sqlfence_oracle", nil, nil)
				execute(ctx, conn, "RELEASE sqlfence_oracle", nil, nil)
			}
		}
		done := execute(ctx, conn, spliced, args, []string{replayResource, replayEpoch, replayGrant})
		if explanation(text, outcome{}, done) != "" && done.State != "" && conn.TxStatus() == 'I' {
			execute(ctx, conn, text, args, nil) // so that later statements find what they expect
		}
		if mode == shutMode {
			done = tried
		}
		outcomes = append(outcomes, done)
	}
	return outcomes, conn.Close(ctx)
}

// behindCheck executes a statement as the driver does one that takes no fence:
// behind a check in the same transaction, which is opened if there is none.
func (r *postgresReplay) behindCheck(ctx context.Context, conn *pgconn.PgConn, text string, mode replayMode) outcome {
	begin, undo := "BEGIN", []string{"ROLLBACK"}
	own := conn.TxStatus() == 'I'
	if !own {
		begin, undo = "SAVEPOINT sqlfence_oracle", []string{"ROLLBACK TO sqlfence_oracle", "RELEASE sqlfence_oracle"}
	}
	check := sqlgen.CheckSQL(sqlgen.PostgreSQL, 1)
	args := arguments(ctx, conn, text)
	tried := outcome{State: untried}
	if mode == shutMode {
		execute(ctx, conn, begin, nil, nil)
		if tried = execute(ctx, conn, check, nil, []string{replayResource, staleEpoch, replayGrant}); tried.State == "" {
			tried = execute(ctx, conn, text, args, nil)
		}
		for _, u := range undo {
			execute(ctx, conn, u, nil, nil)
		}
	}
	if own {
		execute(ctx, conn, begin, nil, nil)
	}
	done := execute(ctx, conn, check, nil, []string{replayResource, replayEpoch, replayGrant})
	if done.State == "" {
		done = execute(ctx, conn, text, args, nil)
	}
	if own && done.State == "" {
		if committed := execute(ctx, conn, "COMMIT", nil, nil); committed.State != "" {
			done = committed
		}
	}
	if own && conn.TxStatus() != 'I' {
		execute(ctx, conn, "ROLLBACK", nil, nil)
	}
	if own && done.State == "25001" { // the driver refuses it
		r.alone++
		done = execute(ctx, conn, text, args, nil)
	}
	if mode == shutMode {
		return tried
	}
	return done
}

// execute runs one statement by the extended protocol and reads all of it.
func execute(ctx context.Context, conn *pgconn.PgConn, text string, args [][]byte, token []string) outcome {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	all := slices.Clone(args)
	for _, t := range token {
		all = append(all, []byte(t))
	}
	result := conn.ExecParams(ctx, text, all, nil, nil, nil)
	var o outcome
	for _, f := range result.FieldDescriptions() {
		o.Fields = append(o.Fields, fmt.Sprintf("%s:%d", f.Name, f.DataTypeOID))
	}
	for result.NextRow() {
		var row strings.Builder
		for i, v := range result.Values() {
			if i > 0 {
				row.WriteByte(',')
			}
			if v == nil {
				row.WriteString("NULL")
			} else {
				row.Write(v)
			}
		}
		o.Rows = append(o.Rows, row.String())
	}
	tag, err := result.Close()
	o.Tag = tag.String()
	if err != nil {
		o = outcome{State: "client", Error: err.Error()}
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) {
			o.State, o.Error = pgErr.Code, pgErr.Message
		}
	}
	return o
}

// arguments invents a value for each parameter, by the type that the server
// gives it. Where the server cannot tell there are none: execution then fails
// alike with and without the fence.
func arguments(ctx context.Context, conn *pgconn.PgConn, text string) [][]byte {
	if !strings.Contains(text, "$") || conn.TxStatus() == 'E' {
		return nil
	}
	inTransaction := conn.TxStatus() == 'T'
	if inTransaction {
		execute(ctx, conn, "SAVEPOINT sqlfence_prepare", nil, nil)
	}
	described, err := conn.Prepare(ctx, "", text, nil)
	if inTransaction {
		execute(ctx, conn, "ROLLBACK TO sqlfence_prepare", nil, nil)
		execute(ctx, conn, "RELEASE sqlfence_prepare", nil, nil)
	}
	if err != nil {
		return nil
	}
	args := make([][]byte, len(described.ParamOIDs))
	for i, oid := range described.ParamOIDs {
		if v, ok := sample[oid]; ok {
			args[i] = []byte(v)
		}
	}
	return args
}

// sample is a value for each common type; NULL for the others.
var sample = map[uint32]string{
	16: "t", 20: "1", 21: "1", 23: "1", 25: "a", 1042: "a", 1043: "a", 19: "a", 26: "1", 700: "1", 701: "1", 1700: "1",
	114: "{}", 3802: "{}", 17: `\x61`, 2950: "00000000-0000-0000-0000-000000000001", 1082: "2026-01-02", 1083: "03:04:05",
	1114: "2026-01-02 03:04:05", 1184: "2026-01-02 03:04:05+00", 1186: "1 day", 869: "127.0.0.1",
	1005: "{1}", 1007: "{1}", 1016: "{1}", 1009: "{a}", 1015: "{a}", 2951: "{00000000-0000-0000-0000-000000000001}",
}

// postgresReplays replays the PostgreSQL statements of the corpora on one
// server.
func postgresReplays(ctx context.Context, dsn string, statements []statement, total *tally) (err error) {
	r := &postgresReplay{dsn: dsn, total: total, corpora: map[string]*corpusCount{}}
	// The databases and roles of two replays at a time would be the same ones.
	alone, err := pgconn.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.Close(context.WithoutCancel(ctx))) }()
	if o := execute(ctx, alone, "SELECT pg_try_advisory_lock(hashtext('sqlfence_oracle'))", nil, nil); o.State != "" || !slices.Equal(o.Rows, []string{"t"}) {
		return fmt.Errorf("another replay runs on this server: %s", o)
	}
	for _, g := range groups(statements, "postgres") {
		r.small = strings.HasPrefix(g.Name, "sqlc")
		if !r.small && !strings.HasPrefix(g.Name, "postgres_regress") && !strings.HasPrefix(g.Name, "shapes") {
			ddl, err := r.inferSchema(ctx, g.Statements)
			if err != nil {
				return err
			}
			g.Statements = append(ddl, g.Statements...)
		}
		if err := r.run(ctx, g); err != nil {
			return fmt.Errorf("%s: %w", g.Name, err)
		}
	}
	fmt.Printf("PostgreSQL %s: %d statements replayed, %d spliced (%d of them ran without error): %d checked first; fence open %d differ, %d differ by themselves, %d explained; fence shut %d refused, %d failed otherwise; %d run outside of transactions only\n",
		r.version, r.replayed, r.spliced, r.succeeded, r.checked, r.differing, r.random, r.explained, r.shut, r.failed, r.alone)
	if err := r.admin(ctx, "DROP DATABASE IF EXISTS "+replayDatabase+" WITH (FORCE)", "DROP DATABASE "+replayTemplate, dropRoles); err != nil {
		return err
	}
	for _, corpus := range slices.Sorted(maps.Keys(r.corpora)) {
		fmt.Printf("  %s: %d spliced, %d of them ran without error\n", corpus, r.corpora[corpus].spliced, r.corpora[corpus].succeeded)
	}
	for _, why := range byCount(r.reasons) {
		fmt.Printf("  %5d %s\n", r.reasons[why], why)
	}
	return nil
}
