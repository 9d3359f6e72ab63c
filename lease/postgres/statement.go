package postgres

import "strings"

// The statements. Times go over the wire as int64 microseconds: no driver and no
// time zone of a session has a say in them (CASES D12).
var (
	acquireSQL = statement(`SELECT a.outcome, a.epoch, a.grant_id, {instant a.expires_at}, a.holder, {span a.remaining}
FROM sqlfence.acquire($1::pg_catalog.text, $2::pg_catalog.text, {interval $3}, {interval $4}, $5::pg_catalog.text, $6::pg_catalog.int8, $7::pg_catalog.int8) AS a`)

	abandonSQL = statement(`SELECT a.outcome
FROM sqlfence.abandon($1::pg_catalog.text, $2::pg_catalog.int8, {interval $3}) AS a`)

	renewSQL = statement(`SELECT 1::pg_catalog.int8, r.outcome, {instant r.expires_at}, r.holder, r.lease_epoch, r.high_water
FROM sqlfence.renew($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.int8, $4::pg_catalog.int8, {interval $5}, {interval $6}) AS r`)

	renewBatchSQL = statement(`SELECT r."position", r.outcome, {instant r.expires_at}, r.holder, r.lease_epoch, r.high_water
FROM sqlfence.renew_batch($1::pg_catalog.text[], $2::pg_catalog.text[], $3::pg_catalog.int8[], $4::pg_catalog.int8[],
	ARRAY(SELECT {interval t.us} FROM pg_catalog.unnest($5::pg_catalog.int8[]) WITH ORDINALITY AS t (us, n) ORDER BY t.n)) AS r`)

	releaseSQL = statement(`SELECT r.outcome, r.holder, r.lease_epoch, r.high_water
FROM sqlfence.release($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.int8, $4::pg_catalog.int8, {interval $5}) AS r`)

	inspectSQL = statement(`SELECT $1::pg_catalog.text, i.status, i.owner, i.epoch, i.high_water, {instant i.expires_at}, {span i.remaining}
FROM sqlfence.inspect($1::pg_catalog.text) AS i`)

	inspectPrefixSQL = statement(`SELECT i.resource, i.status, i.owner, i.epoch, i.high_water, {instant i.expires_at}, {span i.remaining}
FROM sqlfence.inspect_prefix($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.int8) AS i`)

	purgeSQL = statement(`SELECT sqlfence.purge({interval $1}, $2::pg_catalog.int8)`)

	evictSQL = statement(`SELECT e.pid, e.application_name, {span e.age}
FROM sqlfence.evict($1::pg_catalog.text, $2::pg_catalog.text, {interval $3}) AS e`)

	askSQL = `SELECT sqlfence.ask($1::pg_catalog.text)`

	watchSQL   = `SELECT sqlfence.watch($1::pg_catalog.text)`
	unwatchSQL = `SELECT sqlfence.unwatch($1::pg_catalog.text)`

	blockersSQL = statement(`SELECT b.pid, b.application_name, {span b.age}, b.prepared
FROM sqlfence.blockers($1::pg_catalog.text) AS b`)
)

// statement replaces {interval x}, {instant x} and {span x}: x microseconds as
// an interval of seconds, a timestamptz as microseconds since 1970, an interval
// as microseconds.
func statement(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		inside, after, _ := strings.Cut(rest, "}")
		kind, x, _ := strings.Cut(inside, " ")
		if kind == "interval" {
			b.WriteString("pg_catalog.make_interval(secs => " + x + "::pg_catalog.int8::pg_catalog.float8 OPERATOR(pg_catalog./) 1e6::pg_catalog.float8)")
		} else {
			b.WriteString("(pg_catalog.date_part('epoch', " + x + ") OPERATOR(pg_catalog.*) 1e6::pg_catalog.float8)::pg_catalog.int8")
		}
		text = after
	}
}
