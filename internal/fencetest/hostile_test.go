package fencetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// hostile returns statements that put, before pg_catalog in the search_path, a
// stand-in for every operator, function, type, collation and table that the
// schema's functions mention. Each stand-in raises when it is used.
func hostile(s *Session) []string {
	texts := []string{`CREATE SCHEMA evil`}
	raise := func(name, args, result string) string {
		return fmt.Sprintf(`CREATE FUNCTION evil.%s(%s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'captured by evil.%s'; END $$`, name, args, result, name)
	}
	n := 0
	operator := func(name, left, right, result string) {
		n++
		f := fmt.Sprintf("op%d", n)
		texts = append(texts, raise(f, left+","+right, result),
			fmt.Sprintf(`CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.%s)`, name, left, right, f))
	}
	for _, typ := range []string{"text", "int8", "int4", "int2", "bool", "float8", "timestamptz", "interval", "oid", "xid", "name"} {
		for _, name := range []string{"=", "<>", "<", ">", "<=", ">="} {
			operator(name, typ, typ, "bool")
		}
	}
	for _, typ := range []string{"int8", "int4", "float8"} {
		for _, name := range []string{"+", "-", "*", "/"} {
			operator(name, typ, typ, typ)
		}
	}
	operator("<<", "int8", "int4", "int8")
	operator(">>", "int8", "int4", "int8")
	operator("+", "timestamptz", "interval", "timestamptz")
	operator("-", "timestamptz", "interval", "timestamptz")
	operator("-", "timestamptz", "timestamptz", "interval")
	operator("||", "text", "text", "text")
	operator("~~", "text", "text", "bool")
	texts = append(texts,
		raise("hashtextextended", "text, int8", "int8"), raise("clock_timestamp", "", "timestamptz"),
		raise("current_setting", "text", "text"), raise("set_config", "text, text, bool", "text"),
		raise("format", "text, VARIADIC text[]", "text"), raise("octet_length", "text", "int4"),
		raise("pg_advisory_xact_lock", "int4, int4", "void"), raise("pg_advisory_xact_lock_shared", "int4, int4", "void"),
		raise("pg_try_advisory_xact_lock", "int4, int4", "bool"), raise("date_part", "text, interval", "float8"),
		raise("gen_random_uuid", "", "uuid"), raise("starts_with", "text, text", "bool"), raise("unnest", "text[]", "setof text"),
		raise("make_interval", "int4, int4, int4, int4, int4, int4, float8", "interval"), raise("cardinality", "text[]", "int4"),
		raise("pass", "text, int8, int8", "bool"), raise("enter", "text, interval", "void"), raise("ceil", "float8", "float8"),
		`CREATE DOMAIN evil.int8 AS pg_catalog.text CHECK (false)`, `CREATE DOMAIN evil.text AS pg_catalog.int4 CHECK (false)`,
		`CREATE DOMAIN evil.interval AS pg_catalog.int4 CHECK (false)`, `CREATE DOMAIN evil.timestamptz AS pg_catalog.int4 CHECK (false)`,
		`CREATE DOMAIN evil.bool AS pg_catalog.int4 CHECK (false)`,
		`CREATE COLLATION evil."C" (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
		`CREATE TABLE evil.fences (resource pg_catalog.text, high_water pg_catalog.int8, grant_id pg_catalog.int8)`,
		`CREATE TABLE evil.pg_locks (pid pg_catalog.int4)`,
		`CREATE TABLE evil.pg_namespace (nspname pg_catalog.name)`, `CREATE TABLE evil.pg_proc (proname pg_catalog.name)`,
	)
	return texts
}

const evilPath = `SET search_path = evil, pg_temp, pg_catalog`

// G10: no object of the user's, wherever the search_path puts it, is used by the
// functions, by the statements around them, or by the script that creates them.
func TestNoUsersObjectIsCaptured(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		s := (&DB{t: t, DSN: dsn}).Session()
		for _, text := range hostile(s) {
			s.Must(text)
		}
		s.Must(evilPath)
		// The stand-ins are in force: this is the control.
		if err := s.Exec(`SELECT 1::pg_catalog.int8 = 1::pg_catalog.int8`); err == nil || !strings.Contains(err.Error(), "captured") {
			t.Fatalf("the hostile search_path is not in force: %v", err)
		}
		s.Must(`CREATE TEMPORARY TABLE fences AS SELECT 'r'::pg_catalog.text AS resource, 1::pg_catalog.int8 AS high_water, 1::pg_catalog.int8 AS grant_id`)
		s.Must(`CREATE TEMPORARY TABLE leases AS SELECT 'r'::pg_catalog.text AS resource`)
		s.Must(`CREATE TEMPORARY TABLE pg_locks AS SELECT 1 AS pid`)
		s.Must(sqlgen.Schema(sqlgen.PostgreSQL))
		s.Must(sqlgen.Schema(sqlgen.PostgreSQL))

		d := &DB{t: t, DSN: dsn}
		plain := d.Session()
		d.watch = plain
		for _, isolation := range isolations {
			s.Must(isolated(isolation))
			resource := "r " + isolation
			get := func(text string, args []any, into ...any) {
				t.Helper()
				if err := s.Query(text, args, into...); err != nil {
					t.Fatalf("%s: %.120s: %v", isolation, text, err)
				}
			}
			var version, epoch, grant, mark, markGrant int64
			var outcome, status string
			var ok bool
			get(sqlgen.VersionSQL(sqlgen.PostgreSQL), nil, &version)
			if version != sqlgen.SchemaVersion {
				t.Errorf("schema version %d, not %d", version, sqlgen.SchemaVersion)
			}
			get(`SELECT a.epoch, a.grant_id FROM sqlfence.acquire($1, 'A', '1 min') AS a`, []any{resource}, &epoch, &grant)
			get(`SELECT a.outcome FROM sqlfence.acquire($1, 'A', '1 min', reentry => 'extend') AS a`, []any{resource}, &outcome)
			get(`SELECT a.outcome FROM sqlfence.acquire($1, 'B', '1 min', wait => '0', request => 5) AS a`, []any{resource}, &outcome)
			if outcome != "held" {
				t.Errorf("acquire of a held resource: %s", outcome)
			}
			get(sqlgen.CheckSQL(sqlgen.PostgreSQL, 2), []any{resource, epoch, grant, resource, epoch, grant}, &ok)
			get(sqlgen.MarkSQL(sqlgen.PostgreSQL), []any{resource}, &mark, &markGrant)
			if mark != epoch || markGrant != grant {
				t.Errorf("mark %d, %d; want %d, %d", mark, markGrant, epoch, grant)
			}
			for name, token := range map[string][]any{"SF001": {resource, epoch, grant + 1}, "SF002": {resource, epoch + 1, grant}, "SF003": {resource, nil, grant}} {
				if err := s.Exec(sqlgen.CheckSQL(sqlgen.PostgreSQL, 1), token...); State(err) != name {
					t.Errorf("check of %v: %v, not %s", token, err, name)
				}
			}
			if err := s.Exec(sqlgen.CheckSQL(sqlgen.PostgreSQL, 1), "unknown", epoch, grant); State(err) != "SF002" {
				t.Errorf("check of an unknown resource: %v", err)
			}
			get(`SELECT i.status FROM sqlfence.inspect($1) AS i`, []any{resource}, &status)
			if status != "held" {
				t.Errorf("inspect: %s", status)
			}
			get(`SELECT i.status FROM sqlfence.inspect_prefix($1) AS i`, []any{resource}, &status)
			get(`SELECT sqlfence.high_water($1)`, []any{resource}, &mark)
			get(`SELECT r.outcome FROM sqlfence.renew($1, 'A', $2, $3, '1 min') AS r`, []any{resource, epoch, grant}, &outcome)
			get(`SELECT r.outcome FROM sqlfence.renew_batch(ARRAY[$1::pg_catalog.text, 'zz'], '{A,A}', ARRAY[$2::pg_catalog.int8, 1], ARRAY[$3::pg_catalog.int8, 1], '{1 min,1 min}') AS r ORDER BY r."position" LIMIT 1`, []any{resource, epoch, grant}, &outcome)
			if outcome != "ok" {
				t.Errorf("renew_batch: %s", outcome)
			}
			get(`SELECT pg_catalog.count(*) FROM sqlfence.blockers($1)`, []any{resource}, &mark)
			get(`SELECT r.outcome FROM sqlfence.release($1, 'A', $2, $3) AS r`, []any{resource, epoch, grant}, &outcome)
			if outcome != "ok" {
				t.Errorf("release: %s", outcome)
			}
			get(`SELECT a.outcome FROM sqlfence.abandon($1, 77) AS a`, []any{resource}, &outcome)
			get(`SELECT sqlfence.purge('0')`, nil, &mark)
			get(sqlgen.AdvanceSQL(sqlgen.PostgreSQL), []any{resource, int64(100), int64(0)}, &mark, &markGrant)
			if mark != 100 {
				t.Errorf("advance: mark %d", mark)
			}
			s.Must(`RESET default_transaction_isolation`)
		}
	})
}

// Names are compared by their bytes even if an argument brings along a collation
// for which other bytes are equal (D37).
func TestACollationOfAnArgumentDoesNotMergeNames(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		s := d.Session()
		s.Must(`CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false)`)
		var same bool
		s.Get(`SELECT 'job' COLLATE blind = 'JÓB'`, nil, &same)
		if !same {
			t.Fatal("the collation distinguishes the names, so this test proves nothing")
		}
		token := s.Acquire("job", "me")
		for _, name := range []string{"Job", "jób", "job "} {
			var outcome string
			s.Get(`SELECT a.outcome FROM sqlfence.acquire($1::text COLLATE blind, 'other', '1 min') AS a`, []any{name}, &outcome)
			if outcome != "ok" {
				t.Errorf("acquire of %q: %s, because job is held", name, outcome)
			}
			if err := s.Exec(`SELECT sqlfence.pass($1::text COLLATE blind, $2, $3)`, name, token.Epoch, token.Grant); State(err) != "SF001" {
				t.Errorf("the token of job passes for %q: %v", name, err)
			}
		}
		for text, want := range map[string]string{
			`SELECT a.outcome FROM sqlfence.acquire('job', 'ME' COLLATE blind, '1 min') AS a`:             "held",
			`SELECT r.outcome FROM sqlfence.renew('job', 'ME' COLLATE blind, $1, $2, '1 min') AS r`:       "not_owner",
			`SELECT r.outcome FROM sqlfence.release('job', 'ME' COLLATE blind, $1, $2) AS r`:              "not_owner",
			`SELECT r.outcome FROM sqlfence.renew('job' COLLATE blind, 'me', $1, $2, '1 min') AS r`:       "ok",
			`SELECT i.status FROM sqlfence.inspect('JOB' COLLATE blind) AS i`:                             "free",
			`SELECT pg_catalog.min(i.resource) FROM sqlfence.inspect_prefix('jo' COLLATE blind) AS i`:     "job",
			`SELECT count(*)::text FROM sqlfence.inspect_prefix('JO' COLLATE blind) AS i`:                 "0",
			`SELECT count(*)::text FROM sqlfence.inspect_prefix('j', after => 'job', max_rows => 1) AS i`: "1",
		} {
			var got string
			args := []any{token.Epoch, token.Grant}
			if !strings.Contains(text, "$1") {
				args = nil
			}
			s.Get(text, args, &got)
			if got != want {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
		}
	})
}
