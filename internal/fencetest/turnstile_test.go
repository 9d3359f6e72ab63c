package fencetest

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// The spliced forms of DESIGN §3, by hand: $1 is the value, $2 to $4 the token.
const (
	pass     = `sqlfence.pass($2::pg_catalog.text, $3::pg_catalog.int8, $4::pg_catalog.int8)`
	combined = `WITH sqlfence_k AS MATERIALIZED (SELECT ` + pass + ` AS ok), ` +
		`sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT FROM sqlfence_k WHERE NOT ok) `
	combinedWhere = ` WHERE (SELECT ok FROM sqlfence_k) AND `
	head          = `WITH sqlfence_guard AS (INSERT INTO sqlfence.nothing SELECT WHERE NOT (SELECT ` + pass + `)) `
	naive         = ` AND EXISTS (SELECT FROM sqlfence.fences f WHERE f.resource = $2 AND f.high_water = $3 AND f.grant_id = $4)`
)

// form is a guarded write to the row id=1 of table d.
type form struct {
	name, write string
	absent      bool // the row does not exist, and another session is inserting it
	after       bool // the check follows the row work
}

var forms = []form{
	{name: "UPDATE", write: combined + `UPDATE d SET v = $1` + combinedWhere + `(id = 1)`},
	{name: "DELETE", write: combined + `DELETE FROM d` + combinedWhere + `(id = 1 AND v <> $1)`},
	{name: "UPDATE, check at the head", write: head + `UPDATE d SET v = $1 WHERE id = 1`, after: true},
	{name: "INSERT", write: head + `INSERT INTO d VALUES (1, $1)`, absent: true, after: true},
	{name: "upsert", write: head + `INSERT INTO d VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET v = excluded.v`, after: true},
}

var isolations = []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

// rounds of each interleaving. Each is forced and not left to chance, so that a
// few show as much as many; `go test ./internal/fencetest -rounds 200` takes minutes.
var roundsFlag = flag.Int("rounds", 5, "rounds of each interleaving")

const table = `CREATE TABLE d (id int PRIMARY KEY, v text)`

// reset gives d its row, or not, and resource r a valid token of owner A.
func reset(s *Session, absent bool) guard.Token {
	s.Must(`DELETE FROM d`)
	if !absent {
		s.Must(`INSERT INTO d VALUES (1, 'before')`)
	}
	s.Must(`UPDATE sqlfence.leases SET expires_at = clock_timestamp() WHERE owner IS NOT NULL`)
	return s.Acquire("r", "A")
}

func value(d *DB) (v string) {
	d.Watch(`SELECT coalesce((SELECT v FROM d WHERE id = 1), 'none')`, nil, &v)
	return v
}

func isolated(isolation string) string {
	return `SET default_transaction_isolation = '` + strings.ToLower(isolation) + `'`
}

// refused fails unless the write of the token was refused: fenced at once, or
// after a serialization failure when it is tried again (SPEC G1).
func refused(t *testing.T, err error, again func() error, isolation string) {
	t.Helper()
	if State(err) == "40001" && isolation != "READ COMMITTED" {
		err = again()
	}
	if State(err) != "SF001" {
		t.Fatalf("the stale write was not fenced: %v", err)
	}
}

// A write of the old owner waits for a row while the resource changes hands. It
// is never the case that the takeover has returned and the write lands.
func TestAWriteThatWaitsForARowNeverLandsAfterATakeover(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		for _, isolation := range isolations {
			for _, f := range forms {
				t.Run(isolation+"/"+f.name, func(t *testing.T) {
					d := reopen(t, dsn)
					d.watch.Must(table)
					old, other, next := d.Session(isolated(isolation)), d.Session(), d.Session()
					for range *roundsFlag {
						token := reset(next, f.absent)
						args := []any{"stale", token.Resource, token.Epoch, token.Grant}
						write := func() error { return old.Exec(f.write, args...) }

						other.Must(`BEGIN`)
						if f.absent {
							other.Must(`INSERT INTO d VALUES (1, 'other')`)
						} else {
							other.Must(`UPDATE d SET v = 'other' WHERE id = 1`)
						}
						old.Start(f.write, args...)
						old.MustBlock()
						d.Lapse("r")
						next.Start(AcquireSQL, "r", "B")
						if next.Blocked() {
							// The write was checked first: the takeover waits for it.
							if f.after {
								t.Fatal("the takeover waits for a write that has not been checked yet")
							}
							other.Must(`ROLLBACK`)
							if err := old.Wait(); err != nil {
								t.Fatalf("the owner's write, before the takeover: %v", err)
							}
							if err := next.Wait(); err != nil {
								t.Fatalf("takeover: %v", err)
							}
							before := value(d)
							refused(t, write(), write, isolation)
							if v := value(d); v != before {
								t.Fatalf("d holds %q after a refused write, not %q", v, before)
							}
							continue
						}
						if err := next.Wait(); err != nil {
							t.Fatalf("takeover: %v", err)
						}
						if !f.after {
							t.Fatal("the takeover did not wait for a checked write")
						}
						other.Must(`ROLLBACK`)
						refused(t, old.Wait(), write, isolation)
						want := "before"
						if f.absent {
							want = "none"
						}
						if v := value(d); v != want {
							t.Fatalf("d holds %q after the refused write, not %q", v, want)
						}
					}
				})
			}
		}
	})
}

// The control: the same steps with a predicate that reads the fence without the
// turnstile do let the stale write land, so the interleaving is the right one.
func TestAPredicateWithoutTheTurnstileLetsTheStaleWriteLand(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		d.watch.Must(table)
		old, other, next := d.Session(), d.Session(), d.Session()
		for range 10 {
			token := reset(next, false)
			other.Must(`BEGIN`)
			other.Must(`UPDATE d SET v = 'other' WHERE id = 1`)
			old.Start(`UPDATE d SET v = $1 WHERE id = 1`+naive, "stale", token.Resource, token.Epoch, token.Grant)
			old.MustBlock()
			d.Lapse("r")
			next.Acquire("r", "B")
			other.Must(`ROLLBACK`)
			if err := old.Wait(); err != nil {
				t.Fatal(err)
			}
			if v := value(d); v != "stale" {
				t.Fatalf("d holds %q: the naive predicate refused the stale write, so this interleaving proves nothing", v)
			}
		}
	})
}

// A write that arrives while a takeover is under way waits for it, and then sees
// the new mark and not that of its own snapshot.
func TestAWriteThatWaitsForATakeoverSeesTheNewMark(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		for _, isolation := range isolations {
			for _, f := range forms {
				if f.name == "INSERT" {
					f.write = strings.ReplaceAll(f.write, "VALUES (1,", "VALUES (2,")
				}
				for _, inTx := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/in a transaction %t", isolation, f.name, inTx), func(t *testing.T) {
						d := reopen(t, dsn)
						d.watch.Must(table)
						old, next := d.Session(isolated(isolation)), d.Session()
						for range *roundsFlag {
							token := reset(next, false)
							args := []any{"stale", token.Resource, token.Epoch, token.Grant}
							d.Lapse("r")
							if inTx {
								// The snapshot, where there is one, is older than the takeover.
								old.Must(`BEGIN`)
								old.Must(`SELECT count(*) FROM d`)
							}
							next.Must(`BEGIN`)
							next.Acquire("r", "B")
							old.Start(f.write, args...)
							old.MustBlock()
							next.Must(`COMMIT`)
							err := old.Wait()
							if inTx {
								old.Must(`ROLLBACK`)
							}
							refused(t, err, func() error { return old.Exec(f.write, args...) }, isolation)
							if v := value(d); v != "before" {
								t.Fatalf("d holds %q after a refused write", v)
							}
						}
					})
				}
			}
		}
	})
}

// reopen opens a database that subtests share, and empties it.
func reopen(t *testing.T, dsn string) *DB {
	t.Helper()
	d := Attach(t, dsn)
	var version int
	d.Watch(sqlgen.VersionSQL(sqlgen.PostgreSQL), nil, &version)
	if version == 0 {
		d.watch.Must(sqlgen.Schema(sqlgen.PostgreSQL))
	}
	d.watch.Must(`TRUNCATE sqlfence.leases, sqlfence.fences, sqlfence.abandoned; UPDATE sqlfence.meta SET floor = 0`)
	d.watch.Must(`DROP TABLE IF EXISTS d`)
	return d
}

// G13: after a rolled-back acquire the same epoch is granted to somebody else,
// and of the two tokens only the committed one passes.
func TestTheTokenOfARolledBackAcquireIsFenced(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		a, b := d.Session(), d.Session()
		a.Must(`BEGIN`)
		undone := a.Acquire("r", "A")
		a.Must(`ROLLBACK`)
		kept := b.Acquire("r", "B")
		if undone.Epoch != kept.Epoch || undone.Grant == kept.Grant {
			t.Fatalf("tokens %v and %v: not the same epoch with two grants", undone, kept)
		}
		check := `SELECT sqlfence.pass($1, $2, $3)`
		if err := a.Exec(check, undone.Resource, undone.Epoch, undone.Grant); State(err) != "SF001" {
			t.Errorf("the undone token: %v, not fenced", err)
		}
		if err := b.Exec(check, kept.Resource, kept.Epoch, kept.Grant); err != nil {
			t.Errorf("the token that was kept: %v", err)
		}
	})
}

// D31: a new owner that takes the fence first, alone or in the transaction of its
// writes, never deadlocks with guarded writes of the old one.
func TestFenceFirstNeverDeadlocks(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		for _, f := range forms {
			if f.absent {
				continue
			}
			for _, oneTx := range []bool{false, true} {
				if oneTx && f.after {
					// Row work before the check, and the takeover in the same
					// transaction as writes to the same row: that one is a circle,
					// and Acquire is a transaction of its own for this reason.
					continue
				}
				t.Run(fmt.Sprintf("%s/one transaction %t", f.name, oneTx), func(t *testing.T) {
					d := reopen(t, dsn)
					d.watch.Must(table)
					d.watch.Must(`INSERT INTO d VALUES (1, 'before')`)
					a, b := d.Session(), d.Session()
					token := a.Acquire("r", "A")
					for range 10 * *roundsFlag {
						done := make(chan error, 1)
						go func(token guard.Token) {
							done <- a.Exec(f.write, "A", token.Resource, token.Epoch, token.Grant)
						}(token)
						if oneTx {
							b.Must(`BEGIN`)
						}
						token = b.Acquire("r", "A") // the same name: no need to lapse
						b.Must(`UPDATE d SET v = 'B' WHERE id = 1`)
						b.Must(`INSERT INTO d VALUES (1, 'B') ON CONFLICT (id) DO UPDATE SET v = 'B'`)
						if oneTx {
							b.Must(`COMMIT`)
						}
						if err := <-done; err != nil && State(err) != "SF001" {
							t.Fatalf("the old owner's write: %v", err)
						}
					}
				})
			}
		}
	})
}
