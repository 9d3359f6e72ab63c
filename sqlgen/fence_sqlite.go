package sqlgen

import (
	_ "embed" // the schema
	"strconv"
	"strings"
)

//go:embed schema/sqlite.sql
var sqliteSchema string

// sqliteFence: every table is named with its schema, because a TEMP table of
// the same name would otherwise take its place (DESIGN §4).
var sqliteFence = fence{
	schema:  sqliteSchema,
	version: func(string) string { return `SELECT version FROM main.sqlfence_meta WHERE only = 1` },
	check:   sqliteCheck,
	mark:    `SELECT high_water, grant_id FROM main.sqlfence_fences WHERE resource = ?1`,
	advance: `INSERT INTO main.sqlfence_fences AS f (resource, high_water, grant_id)
VALUES (?1, ?2, ?3)
ON CONFLICT (resource) DO UPDATE
SET high_water = max(f.high_water, excluded.high_water),
	grant_id = CASE WHEN excluded.high_water > f.high_water THEN excluded.grant_id ELSE f.grant_id END
RETURNING high_water, grant_id`,
}

const (
	// sqliteNow is the time in milliseconds. SQLite reads the clock once per
	// step of a statement, at its first use: after the statement has its lock.
	// unixepoch('subsec') would need 3.42.
	sqliteNow = `CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)`

	sqliteMaxEpoch = `9223372036854775807`
)

// sqliteLease: whoever asks has the write lock of main.
const sqliteLease = `SELECT l.resource, coalesce(l.expires_at > ` + sqliteNow + `, 0) FROM main.sqlfence_leases AS l WHERE (`

// sqliteCheck returns one row (resource, high_water, grant_id) for each of n
// tokens that has a mark. All parameters of the tokens are used, because
// drivers count them.
func sqliteCheck(n int, _ string) string {
	var b strings.Builder
	b.WriteString("WITH presented (resource, epoch, grant_id) AS (VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		p := i * TokenParams
		b.WriteString("(?" + strconv.Itoa(p+1) + ", ?" + strconv.Itoa(p+2) + ", ?" + strconv.Itoa(p+3) + ")")
	}
	b.WriteString(") SELECT f.resource, f.high_water, f.grant_id" +
		" FROM presented AS p JOIN main.sqlfence_fences AS f ON f.resource = p.resource")
	return b.String()
}

// The statements of the lease operations on SQLite. Those that write belong
// into one transaction that has, or takes with its first statement, the write
// lock. Each carries its own condition, so that a wrong order of statements
// can refuse, but never grant.
const (
	// SQLiteLeaseState reads everything about the resource ?1: one row of
	// version, floor, now; owner, epoch, grant, expiry of the lease (NULL if
	// there is none); mark and its grant (NULL if there is none). Times are in
	// milliseconds. No row: the schema is incomplete.
	SQLiteLeaseState = `SELECT ` + sqliteStateColumns + `
FROM main.sqlfence_meta AS m
LEFT JOIN main.sqlfence_leases AS l ON l.resource = ?1
LEFT JOIN main.sqlfence_fences AS f ON f.resource = ?1
WHERE m.only = 1`

	sqliteStateColumns = `m.version, m.floor, ` + sqliteNow + `,
	l.owner, l.epoch, l.grant_id, l.expires_at, f.high_water, f.grant_id`

	// SQLiteLeaseGrant makes the resource ?1 held by owner ?2 for ?3
	// milliseconds, under an epoch above every one minted or seen and a fresh
	// grant, which is never 0; by the owner's own name over a live lease only
	// if ?4 is 1. ?5 is the schema's version, ?6 the least epoch. It returns epoch, grant, expiry;
	// or no row: held, epochs exhausted, or another version.
	// [SQLiteLeaseMark] must follow.
	SQLiteLeaseGrant = `INSERT INTO main.sqlfence_leases AS l (resource, owner, epoch, grant_id, expires_at)
SELECT ?1, ?2, t.top + 1, random() | 1, ` + sqliteNow + ` + ?3
FROM (
	SELECT max(m.floor, ?6 - 1,
		coalesce((SELECT epoch FROM main.sqlfence_leases WHERE resource = ?1), 0),
		coalesce((SELECT high_water FROM main.sqlfence_fences WHERE resource = ?1), 0)) AS top
	FROM main.sqlfence_meta AS m
	WHERE m.only = 1 AND m.version = ?5
) AS t
WHERE t.top < ` + sqliteMaxEpoch + `
ON CONFLICT (resource) DO UPDATE
SET owner = excluded.owner, epoch = excluded.epoch, grant_id = excluded.grant_id, expires_at = excluded.expires_at
WHERE l.owner IS NULL OR l.expires_at <= ` + sqliteNow + ` OR (?4 = 1 AND l.owner = excluded.owner)
RETURNING epoch, grant_id, expires_at`

	// SQLiteLeaseExtend keeps the token of the lease that owner ?2 holds on the
	// resource ?1 and moves its expiry to ?3 milliseconds from now. It returns
	// epoch, grant, expiry; or no row: he holds none, its epoch is below ?4, or
	// the mark has moved.
	SQLiteLeaseExtend = `UPDATE main.sqlfence_leases AS l
SET expires_at = ` + sqliteNow + ` + ?3
WHERE l.resource = ?1 AND l.owner = ?2 AND l.expires_at > ` + sqliteNow + ` AND l.epoch >= ?4
	AND EXISTS (SELECT 1 FROM main.sqlfence_fences AS f
		WHERE f.resource = l.resource AND f.high_water = l.epoch AND f.grant_id = l.grant_id)
RETURNING epoch, grant_id, expires_at`

	// SQLiteLeaseMark raises the mark of the resource ?1 to the epoch and
	// grant of its lease. It affects one row.
	SQLiteLeaseMark = `INSERT INTO main.sqlfence_fences AS f (resource, high_water, grant_id)
SELECT resource, epoch, grant_id FROM main.sqlfence_leases WHERE resource = ?1
ON CONFLICT (resource) DO UPDATE
SET high_water = excluded.high_water, grant_id = excluded.grant_id
WHERE excluded.high_water > f.high_water`

	// SQLiteLeaseRelease frees resource ?1, held by owner ?2 under epoch ?3
	// and grant ?4, and gives it the next epoch and a grant that nobody has.
	// It affects one row, after which [SQLiteLeaseMark] must follow; or none,
	// for the same causes as [SQLiteLeaseRenew], or with epochs exhausted.
	SQLiteLeaseRelease = `UPDATE main.sqlfence_leases
SET owner = NULL, expires_at = NULL, epoch = epoch + 1, grant_id = random() | 1
WHERE epoch < ` + sqliteMaxEpoch + ` AND ` + sqliteHolds

	// sqliteHolds is the claim of an owner to a lease: his, not lapsed, and
	// the mark not moved past it.
	sqliteHolds = `resource = ?1 AND owner = ?2 AND epoch = ?3 AND grant_id = ?4 AND expires_at > ` + sqliteNow + `
	AND EXISTS (SELECT 1 FROM main.sqlfence_fences AS f WHERE f.resource = ?1 AND f.high_water = ?3 AND f.grant_id = ?4)`
)

// SQLiteRenewParams is how many parameters [SQLiteLeaseRenew] takes for each claim.
const SQLiteRenewParams = 5

// SQLiteLeaseRenew moves the expiry of n leases, of n different resources. A claim
// is resource, owner, epoch, grant and the milliseconds from now to the new expiry. For
// each that holds it returns resource and new expiry, in any order; and no row for one
// that is not the owner, has lapsed, has another epoch or grant, or whose mark has
// moved. All are judged, and renewed, by one reading of the clock.
//
// It is written as an INSERT because an UPDATE … FROM may compare every claim with every
// lease: by what ANALYZE once counted, SQLite decides which of the two it looks up in the
// other. Behind CROSS JOIN it is always the lease, by its key. The INSERT finds each row
// there, and inserts none.
func SQLiteLeaseRenew(n int) string {
	return `WITH sqlfence_c (resource, owner, epoch, grant_id, ttl) AS (VALUES ` + sqliteRows(n, SQLiteRenewParams) + `)
INSERT INTO main.sqlfence_leases AS l (resource, owner, epoch, grant_id, expires_at)
SELECT h.resource, h.owner, h.epoch, h.grant_id, ` + sqliteNow + ` + c.ttl
FROM sqlfence_c AS c
CROSS JOIN main.sqlfence_leases AS h ON h.resource = +c.resource
WHERE h.owner = c.owner AND h.epoch = c.epoch AND h.grant_id = c.grant_id AND h.expires_at > ` + sqliteNow + `
	AND EXISTS (SELECT 1 FROM main.sqlfence_fences AS f
		WHERE f.resource = h.resource AND f.high_water = h.epoch AND f.grant_id = h.grant_id)
ON CONFLICT (resource) DO UPDATE SET expires_at = excluded.expires_at
RETURNING resource, expires_at`
}

// SQLiteLeaseStates is [SQLiteLeaseState] for n resources, in any order, each row
// beginning with its resource.
func SQLiteLeaseStates(n int) string {
	return `WITH sqlfence_r (resource) AS (VALUES ` + sqliteRows(n, 1) + `)
SELECT r.resource, ` + sqliteStateColumns + `
FROM main.sqlfence_meta AS m
CROSS JOIN sqlfence_r AS r
LEFT JOIN main.sqlfence_leases AS l ON l.resource = +r.resource
LEFT JOIN main.sqlfence_fences AS f ON f.resource = +r.resource
WHERE m.only = 1`
}

// sqliteRows is a list of n rows of anonymous parameters.
func sqliteRows(n, width int) string {
	row := "(" + strings.Repeat("?, ", width-1) + "?)"
	return strings.Repeat(row+", ", n-1) + row
}
