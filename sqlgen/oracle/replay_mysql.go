package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// mysqlReplay replays statements in transactions that are rolled back: bare, with
// the fence open, and with the fence shut, so that all of them meet the same
// tables. Then each is executed once for those that follow.
type mysqlReplay struct {
	*mysqlConn
	total *tally

	version   string
	fence     string   // the database that holds it
	database  string   // the one that the statements are executed in
	databases []string // those that statements named, made by infer
	tables    []string // base tables of all of them; nil where they must be asked for
	counting  []string // of these, the ones with AUTO_INCREMENT
	made      int

	prepared, notPrepared, writes, spliced, checked, refused, replayed, succeeded, differing int
	refusals                                                                                 refusals
}

var (
	mysqlName = regexp.MustCompile(`^\w+$`)
	// What a text looks like that writes, to somebody who knows no SQL.
	mysqlWrites = regexp.MustCompile(`(?is)^(?:\s|;|--(?:[ \t][^\n]*)?\n|#[^\n]*\n|/\*.*?\*/|\()*(?:set\s+statement\b.*?\bfor\s+)?(?:insert|update|delete|replace|load\s+(?:data|xml)|truncate|call|with\b.*\)\s*(?:update|delete))\b`)
	// What is executed for the statements that follow, if it is not spliced.
	mysqlProceeds = regexp.MustCompile(`(?is)^(?:\s|;|--(?:[ \t][^\n]*)?\n|#[^\n]*\n|/\*.*?\*/)*(?:insert|update|delete|replace|truncate|with|create\s+(?:or\s+replace\s+)?(?:table|(?:unique\s+)?index|view|sequence)|alter\s+table|drop\s+(?:table|index|view))\b`)
	// What would not come back, or reach beyond the replay's own databases.
	mysqlNever = regexp.MustCompile(`(?is)\b(?:sleep|benchmark|get_lock|release_all_locks|load_file|outfile|dumpfile|shutdown)\b|\b(?:mysql|sys|information_schema|performance_schema)\W?\s*\.`)
	// What a transaction that is read only refuses, although it writes nothing.
	mysqlLocks  = regexp.MustCompile(`(?i)\bfor\s+update\b|\bexplain\b|\bdescribe\b|\bdesc\b`)
	mysqlRandom = regexp.MustCompile(`(?i)\b(?:now|sysdate|rand|uuid|curdate|curtime|current_\w+|utc_\w+|localtime\w*|connection_id|last_insert_id|unix_timestamp|row_count|found_rows)\b`)
)

// mysqlReplays replays the corpora's statements for MySQL, then the single
// writes of the others as far as the server accepts them.
func mysqlReplays(ctx context.Context, dsn string, statements []statement, total *tally) (err error) {
	r, err := openMySQLReplay(ctx, dsn, total)
	if err != nil {
		return fmt.Errorf("mysql: %w", err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for _, dialect := range []string{"mysql", "sqlite", "postgres"} {
		for _, g := range groups(statements, dialect) {
			if err := r.reset(); err != nil {
				return err
			}
			for _, s := range g.Statements {
				text := asSent(s)
				if dialect != "mysql" && (!singleWrite.MatchString(text) || strings.Contains(text, "$")) {
					continue
				}
				if err := r.judge(text, s.Corpus); err != nil {
					return fmt.Errorf("mysql: %s: %s: %w", s.File, quote(text), err)
				}
			}
		}
	}
	total.statements += r.prepared
	total.spliced += r.spliced
	total.refused += r.refused
	fmt.Printf("%s: %d statements accepted (%d were not), %d write; %d spliced, %d checked first, %d refused; %d replayed with the fence open and shut, %d of them without an error, %d differ by chance\n",
		r.version, r.prepared, r.notPrepared, r.writes, r.spliced, r.checked, r.refused, r.replayed, r.succeeded, r.differing)
	r.refusals.print(false)
	return nil
}

// openMySQLReplay makes a fence with one mark.
func openMySQLReplay(ctx context.Context, dsn string, total *tally) (*mysqlReplay, error) {
	conn, err := connectMySQL(ctx, dsn)
	if err != nil {
		return nil, err
	}
	r := &mysqlReplay{mysqlConn: conn, total: total}
	about, err := r.column("SELECT VERSION() UNION ALL SELECT LOWER(HEX(CONNECTION_ID()))")
	if err != nil {
		return nil, errors.Join(err, conn.conn.Close())
	}
	r.version, r.database = about[0], "sqlfence_oracle_"+about[1]
	r.fence = r.database + "_fence"
	bounds := []string{"SET SESSION max_execution_time = 5000"}
	if strings.Contains(r.version, "MariaDB") {
		bounds = []string{"SET SESSION max_statement_time = 5", "SET SESSION enforce_storage_engine = InnoDB"}
	}
	texts := append(bounds, "DROP DATABASE IF EXISTS "+r.fence, "CREATE DATABASE "+r.fence, "USE "+r.fence)
	texts = append(texts, strings.Split(strings.TrimSuffix(sqlgen.Schema(sqlgen.MySQL), "\n;\n"), "\n;\n")...)
	err = r.must(append(texts, "INSERT INTO sqlfence_fences (resource, high_water, grant_id) VALUES ('"+replayResource+"', 5, 7)")...)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *mysqlReplay) close() error {
	return errors.Join(r.drop(), r.must("DROP DATABASE IF EXISTS "+r.fence), r.conn.Close())
}

// reset replaces the database of the statements by an empty one.
func (r *mysqlReplay) reset() error {
	return errors.Join(r.drop(), r.must("CREATE DATABASE "+r.database+" CHARACTER SET utf8mb4", "USE "+r.database))
}

// drop removes the databases that statements were executed in.
func (r *mysqlReplay) drop() error {
	err := r.must("SET foreign_key_checks = 0", "DROP DATABASE IF EXISTS "+r.database)
	for _, name := range r.databases {
		err = errors.Join(err, r.must("DROP DATABASE "+quoteMySQL(name)))
	}
	r.databases, r.tables = nil, nil
	return errors.Join(err, r.must("SET foreign_key_checks = 1"))
}

func (r *mysqlReplay) next() int { r.made++; return r.made }

// judge holds one text against what the server says of it, and replays it.
func (r *mysqlReplay) judge(text, from string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.total.wrong++
			r.total.print(finding{What: fmt.Sprintf("MySQL: panic: %v", p), Text: text})
		}
	}()
	plan := sqlgen.Analyze(sqlgen.MySQL, text, sqlgen.Database(r.fence))
	return r.judgePlan(text, from, plan, plan.Guarded)
}

func (r *mysqlReplay) judgePlan(text, from string, plan *sqlgen.Plan, splice splicer) error {
	if strings.IndexByte(text, 0) >= 0 {
		return nil
	}
	report := func(missed bool, spliced, format string, args ...any) {
		if missed {
			r.total.missed++
		} else {
			r.total.wrong++
		}
		r.total.print(finding{Missed: missed, What: "MySQL: " + fmt.Sprintf(format, args...), Text: text, Spliced: spliced})
	}
	params, complaint, err := r.infer(text)
	if err != nil {
		return err
	}
	if complaint != nil {
		return r.notAccepted(complaint, plan, splice, report)
	}
	r.prepared++
	switch plan.Strategy {
	case sqlgen.Splice:
		r.spliced++
	case sqlgen.CheckFirst:
		r.checked++
	case sqlgen.Refuse:
		r.refused++
	}
	write := mysqlWrites.MatchString(text)
	if write {
		r.writes++
		if plan.Strategy == sqlgen.Pass {
			report(true, "", "a write passed as %v", plan.Kind)
		}
		if plan.Strategy != sqlgen.Splice {
			r.refusals.add(plan, from+": "+quote(text))
		}
	} else if plan.Strategy == sqlgen.Splice {
		report(false, "", "spliced, but it does not look like a write")
	}
	if mysqlNever.MatchString(text) {
		return nil
	}
	args := userArgs(params)
	switch {
	case plan.Strategy == sqlgen.Splice && params != plan.Params:
		report(false, "", "it takes %d parameters, not %d", params, plan.Params)
		return nil
	case plan.Strategy == sqlgen.Splice:
		return r.replay(text, plan, splice, args, report)
	case plan.Strategy == sqlgen.Pass && plan.Kind == sqlgen.KindRead:
		if mysqlLocks.MatchString(text) {
			return nil
		}
		return r.reads(text, args, report)
	case plan.Strategy == sqlgen.CheckFirst && write:
		return r.behindCheck(text, args, report)
	case mysqlProceeds.MatchString(text):
		r.tables = nil
		_, err := r.run(text, args, false)
		return err
	}
	return nil
}

// notAccepted: where the server does not accept a text, what it was spliced to
// must not write. What is wrong with the columns of an INSERT … SELECT, it finds
// when it is executed.
func (r *mysqlReplay) notAccepted(complaint *mysql.MySQLError, plan *sqlgen.Plan, splice splicer, report func(bool, string, string, ...any)) error {
	r.notPrepared++
	if plan.Strategy != sqlgen.Splice {
		return nil
	}
	spliced, err := splice(1)
	if err != nil {
		return nil
	}
	_, other, err := r.parameters(spliced)
	if err != nil || other != nil {
		return err
	}
	if e, _, err := r.try(spliced, tokenArgs(userArgs(plan.Params), plan.At, 1, false), plan.Returns()); err != nil {
		return err
	} else if e.Code == 0 {
		report(false, spliced, "the text is not accepted (%d: %s), the spliced text is", complaint.Number, complaint.Message)
	}
	return nil
}

// userArgs are arguments of all kinds.
func userArgs(n int) []driver.Value {
	args := make([]driver.Value, n)
	for i := range args {
		switch v := userValue(i + 1).(type) {
		case int:
			args[i] = int64(v)
		default:
			args[i] = v
		}
	}
	return args
}

// tokenArgs inserts those of n tokens, of which the last may be stale.
func tokenArgs(args []driver.Value, at, n int, stale bool) []driver.Value {
	var tokens []driver.Value
	for i := range n {
		epoch := int64(5)
		if stale && i == n-1 {
			epoch = 4
		}
		tokens = append(tokens, sqlgen.ResourceParam(sqlgen.MySQL, replayResource), epoch, int64(7))
	}
	return slices.Concat(args[:at], tokens, args[at:])
}

// reads: what passes as a query must be one to the server, which refuses to
// write in a transaction that is read only.
func (r *mysqlReplay) reads(text string, args []driver.Value, report func(bool, string, string, ...any)) error {
	if err := r.must("START TRANSACTION READ ONLY"); err != nil {
		return err
	}
	e, err := r.run(text, args, true)
	if err != nil {
		return err
	}
	if e.Code == 1792 {
		report(true, "", "a write passed: %s", e)
	}
	return r.must("ROLLBACK")
}

// behindCheck executes what is checked first: it must leave the transaction of
// the check open.
func (r *mysqlReplay) behindCheck(text string, args []driver.Value, report func(bool, string, string, ...any)) error {
	if err := r.must("BEGIN", "INSERT INTO "+r.fence+".sqlfence_fences (resource, high_water, grant_id) VALUES ('canary', 1, 1)"); err != nil {
		return err
	}
	if _, err := r.run(text, args, false); err != nil {
		return err
	}
	if err := r.must("ROLLBACK"); err != nil {
		return err
	}
	canary, err := r.column("SELECT resource FROM " + r.fence + ".sqlfence_fences WHERE resource = 'canary'")
	if err != nil {
		return err
	}
	if len(canary) > 0 {
		report(true, "", "what ends the transaction is executed behind a check")
		if err := r.must("DELETE FROM " + r.fence + ".sqlfence_fences WHERE resource = 'canary'"); err != nil {
			return err
		}
	}
	_, err = r.run(text, args, false)
	return err
}

// replay executes the text bare and spliced.
func (r *mysqlReplay) replay(text string, plan *sqlgen.Plan, splice splicer, args []driver.Value, report func(bool, string, string, ...any)) error {
	r.replayed++
	returns := plan.Returns()
	bare, left, err := r.try(text, args, returns)
	if err != nil {
		return err
	}
	if bare.Code == 0 {
		r.succeeded++
	}
	_, untouched, err := r.try("DO 1", nil, false)
	if err != nil {
		return err
	}
	for n := 1; n <= 2; n++ {
		spliced, err := splice(n)
		if err != nil {
			report(false, "", "not spliced for %d tokens: %v", n, err)
			return nil
		}
		params, complaint, err := r.parameters(spliced)
		if err != nil {
			return err
		}
		if complaint != nil {
			report(false, spliced, "the spliced text is not accepted: %d: %s", complaint.Number, complaint.Message)
			return nil
		}
		if want := plan.Params + n*sqlgen.TokenParams; params != want {
			report(false, spliced, "the spliced text takes %d parameters, not %d", params, want)
			return nil
		}
		open, after, err := r.try(spliced, tokenArgs(args, plan.At, n, false), returns)
		if err != nil {
			return err
		}
		if !open.same(bare) || after != left {
			again, afterwards, err := r.try(text, args, returns)
			if err != nil {
				return err
			}
			if !again.same(bare) || afterwards != left || mysqlRandom.MatchString(text) {
				r.differing++
			} else {
				report(false, spliced, "open: %s; bare: %s; the same tables: %v", open, bare, after == left)
			}
		}
		shut, after, err := r.try(spliced, tokenArgs(args, plan.At, n, true), returns)
		if err != nil {
			return err
		}
		if after != untouched || shut.Affected != 0 || len(shut.Rows) != 0 {
			report(false, spliced, "a stale token among %d: %s; the tables untouched: %v", n, shut, after == untouched)
		}
		const severalRows = 1242 // how rows that the text lists are refused
		if plan.Raises() && shut.Code == 0 {
			report(false, spliced, "a stale token among %d raises nothing: %s", n, shut)
		}
		if shut.Code != 0 && shut.Code != bare.Code && shut.Code != severalRows {
			report(false, spliced, "a stale token: %s; bare: %s", shut, bare)
		}
	}
	_, err = r.run(text, args, returns)
	return err
}

// try executes the text in a transaction that is rolled back, and returns what
// was seen of it and the tables then.
func (r *mysqlReplay) try(text string, args []driver.Value, returns bool) (e mysqlEffect, content string, err error) {
	if err := r.must("BEGIN"); err != nil {
		return e, "", err
	}
	if e, err = r.run(text, args, returns); err != nil {
		return e, "", err
	}
	if content, err = r.content(); err != nil {
		return e, "", err
	}
	if err := r.must("ROLLBACK"); err != nil {
		return e, "", err
	}
	if e.ID != 0 || e.Code != 0 {
		err = r.rewind()
	}
	return e, content, err
}

// rewind sets the counters of AUTO_INCREMENT back, which a roll-back does not.
func (r *mysqlReplay) rewind() error {
	for _, table := range r.counting {
		if err := r.must("ALTER TABLE " + table + " AUTO_INCREMENT = 1"); err != nil {
			return err
		}
	}
	return nil
}

// allTables returns the base tables of the databases that statements are
// executed in.
func (r *mysqlReplay) allTables() ([]string, error) {
	if r.tables != nil {
		return r.tables, nil
	}
	schemas := "'" + r.database + "'"
	for _, name := range r.databases {
		schemas += ", '" + name + "'"
	}
	const name = "SELECT CONCAT('`', table_schema, '`.`', REPLACE(table_name, '`', '``'), '`') FROM information_schema."
	var err1, err2 error
	r.tables, err1 = r.column(name + "tables WHERE table_schema IN (" + schemas + ") AND table_type LIKE '%BASE TABLE' ORDER BY 1")
	r.counting, err2 = r.column(name + "columns WHERE table_schema IN (" + schemas + ") AND extra LIKE '%auto_increment%'")
	if r.tables == nil {
		r.tables = []string{}
	}
	return r.tables, errors.Join(err1, err2)
}

// content is all tables, in words.
func (r *mysqlReplay) content() (string, error) {
	tables, err := r.allTables()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, table := range tables {
		e, err := r.run("SELECT * FROM "+table, nil, true)
		if err != nil {
			return "", err
		}
		slices.Sort(e.Rows)
		b.WriteString(table + "\n" + strings.Join(e.Rows, "\n") + "\n")
	}
	return b.String(), nil
}
