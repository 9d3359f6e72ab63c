package fencetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// A denied acquire, renew or release disturbs nobody: it writes nothing, locks
// nothing and costs no transaction id; also inside a transaction, and also where
// the denial was found only after the wait for the turnstile.
func TestADenialTakesNoLockAndNoTransactionID(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		a, b := d.Session(), d.Session()
		token := a.Acquire("r", "A")
		locks := func() (n int) {
			d.Watch(`SELECT count(*) FROM pg_locks WHERE pid = $1 AND (locktype IN ('advisory', 'tuple', 'transactionid') OR mode = 'RowExclusiveLock')`, []any{int32(b.PID)}, &n)
			return n
		}
		var before string
		contents := `SELECT (SELECT (owner, epoch, grant_id, freed_at)::text FROM sqlfence.leases) || (SELECT f::text FROM sqlfence.fences f)`
		d.Watch(contents, nil, &before)
		for _, c := range []struct{ text, want string }{
			{`SELECT outcome FROM sqlfence.acquire('r', 'B', '1 min')`, "held"},
			{`SELECT outcome FROM sqlfence.acquire('r', 'A', '1 min', reentry => 'refuse')`, "held"},
			{`SELECT outcome FROM sqlfence.renew('r', 'B', 1, 1, '1 min')`, "not_owner"},
			{`SELECT outcome FROM sqlfence.renew('r', 'A', 1, 1, '1 min')`, "epoch_mismatch"},
			{`SELECT outcome FROM sqlfence.release('r', 'B', 1, 1)`, "not_owner"},
			{`SELECT outcome FROM sqlfence.release('r', 'A', 1, 1)`, "epoch_mismatch"},
			{`SELECT outcome FROM sqlfence.renew('unknown', 'A', 1, 1, '1 min')`, "not_owner"},
		} {
			var outcome string
			var unassigned bool
			b.Must(`BEGIN`)
			b.Get(c.text, nil, &outcome)
			b.Get(`SELECT pg_current_xact_id_if_assigned() IS NULL`, nil, &unassigned)
			if outcome != c.want || !unassigned || locks() != 0 {
				t.Errorf("%s: %s, no transaction id %t, %d locks; want %s without any", c.text, outcome, unassigned, locks(), c.want)
			}
			b.Must(`COMMIT`)
		}

		// Lapsed when the acquire looks first, renewed by the time it has the turnstile.
		a.Must(`BEGIN`)
		a.Must(`SELECT sqlfence.pass($1, $2, $3)`, token.Resource, token.Epoch, token.Grant)
		d.Lapse("r")
		b.Must(`BEGIN`)
		b.Start(`SELECT sqlfence.acquire('r', 'B', '1 min')`)
		b.MustBlock()
		d.watch.Must(`UPDATE sqlfence.leases SET expires_at = clock_timestamp() + interval '1 min'`)
		a.Must(`COMMIT`)
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		var n int
		d.Watch(`SELECT count(*) FROM pg_locks WHERE pid = $1 AND locktype = 'advisory'`, []any{int32(b.PID)}, &n)
		if n != 0 {
			t.Errorf("%d advisory locks are kept after a denial in a transaction", n)
		}
		b.Must(`COMMIT`)
		var after string
		d.Watch(contents, nil, &after)
		if before != after {
			t.Errorf("denials changed %s to %s", before, after)
		}
	})
}

// Under REPEATABLE READ and SERIALIZABLE an old snapshot never mints an epoch
// twice and never denies a lease that is held: 40001 instead.
func TestAnOldSnapshotIsNeverBelieved(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		for _, isolation := range isolations[1:] {
			t.Run(isolation, func(t *testing.T) {
				d := reopen(t, dsn)
				a, b := d.Session(), d.Session()
				free := func(s *Session, resource string) { // acquired and released once
					token := s.Acquire(resource, "X")
					s.Must(`SELECT sqlfence.release($1, 'X', $2, $3)`, resource, token.Epoch, token.Grant)
				}
				free(a, "known")
				held := a.Acquire("held", "A")
				cases := []struct {
					name      string
					meanwhile func() []any // commits after b's snapshot
					text      string
				}{
					{"acquire, new resource, taken meanwhile", func() []any { a.Acquire("new", "A"); return nil }, `SELECT outcome FROM sqlfence.acquire('new', 'B', '1 min')`},
					{"acquire, known resource, taken meanwhile", func() []any { a.Acquire("known", "A"); return nil }, `SELECT outcome FROM sqlfence.acquire('known', 'B', '1 min')`},
					{"acquire, taken, released and purged meanwhile", func() []any {
						free(a, "gone")
						a.Must(`SELECT sqlfence.purge('0')`)
						return nil
					}, `SELECT outcome FROM sqlfence.acquire('gone', 'B', '1 min')`},
					{"acquire, advanced meanwhile", func() []any { a.Must(`SELECT sqlfence.advance('adv', 50, 0)`); return nil }, `SELECT outcome FROM sqlfence.acquire('adv', 'B', '1 min')`},
					{"renew of a lease granted meanwhile", func() []any {
						token := a.Acquire("granted", "B")
						return []any{token.Epoch, token.Grant}
					}, `SELECT outcome FROM sqlfence.renew('granted', 'B', $1, $2, '1 min')`},
					{"release of a lease granted meanwhile", func() []any {
						token := a.Acquire("granted2", "B")
						return []any{token.Epoch, token.Grant}
					}, `SELECT outcome FROM sqlfence.release('granted2', 'B', $1, $2)`},
					{"renew of a lease whose mark moved meanwhile", func() []any {
						a.Must(`SELECT sqlfence.advance('held', 1000, 0)`)
						return []any{held.Epoch, held.Grant}
					}, `SELECT outcome FROM sqlfence.renew('held', 'A', $1, $2, '1 min')`},
					{"advance, moved meanwhile", func() []any { a.Must(`SELECT sqlfence.advance('m', 7, 7)`); return nil }, `SELECT high_water FROM sqlfence.advance('m', 5, 5)`},
					{"check of a mark that moved meanwhile", func() []any {
						token := a.Acquire("checked", "B")
						a.Acquire("checked", "B")
						return []any{token.Epoch, token.Grant}
					}, `SELECT sqlfence.pass('checked', $1, $2)::text`},
				}
				for _, c := range cases {
					b.Must(`BEGIN ISOLATION LEVEL ` + isolation)
					b.Must(`SELECT 1 FROM sqlfence.inspect('x')`)
					args := c.meanwhile()
					var answer any
					err := b.Query(c.text, args, &answer)
					if err == nil {
						err = b.Exec(`COMMIT`)
					}
					if State(err) != "40001" {
						t.Errorf("%s: answered %v, error %v; want 40001", c.name, answer, err)
					}
					b.Must(`ROLLBACK`)
				}
			})
		}
	})
}

// Eight sessions acquire the same lapsed resource at once, in autocommit at every
// isolation level: no epoch is granted twice, and none goes back (D6).
func TestNoEpochIsGrantedTwice(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		for _, isolation := range isolations {
			t.Run(isolation, func(t *testing.T) {
				d := reopen(t, dsn)
				epochs := make(chan int64, 8*25)
				failed := make(chan error, 8)
				for i := range 8 {
					s := d.Session(isolated(isolation))
					go func() {
						granted := 0
						for granted < 25 {
							// Each acquires over its own lease or the others', which lapse at once.
							var outcome string
							var epoch *int64
							err := s.Query(`SELECT outcome, epoch FROM sqlfence.acquire('r', $1, '1 ms')`, []any{fmt.Sprint(i)}, &outcome, &epoch)
							switch {
							case State(err) == "40001" && isolation != "READ COMMITTED":
							case err != nil:
								failed <- err
								return
							case outcome == "ok":
								epochs <- *epoch
								granted++
							}
						}
						failed <- nil
					}()
				}
				for range 8 {
					if err := <-failed; err != nil {
						t.Fatal(err)
					}
				}
				close(epochs)
				var all []int64
				for e := range epochs {
					all = append(all, e)
				}
				slices.Sort(all)
				if n := len(slices.Compact(slices.Clone(all))); n != len(all) || len(all) != 200 {
					t.Errorf("%d acquires got %d different epochs", len(all), n)
				}
			})
		}
	})
}

// Epochs are never wrapped: at the largest there is an error, and nothing changes.
func TestEpochsEndAtMaxInt64(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		s := d.Session()
		s.Must(`SELECT sqlfence.advance('r', $1, 0)`, int64(math.MaxInt64-1))
		token := s.Acquire("r", "A")
		if token.Epoch != math.MaxInt64 {
			t.Fatalf("epoch %d, not the largest", token.Epoch)
		}
		check := `SELECT sqlfence.pass($1, $2, $3)`
		s.Must(check, token.Resource, token.Epoch, token.Grant)
		if err := s.Exec(`SELECT sqlfence.acquire('r', 'A', '1 min')`); State(err) != "SF004" {
			t.Errorf("acquire beyond the largest epoch: %v", err)
		}
		s.Must(check, token.Resource, token.Epoch, token.Grant)
		if err := s.Exec(`SELECT sqlfence.release('r', 'A', $1, $2)`, token.Epoch, token.Grant); State(err) != "SF004" {
			t.Errorf("release at the largest epoch: %v", err)
		}
		s.Must(check, token.Resource, token.Epoch, token.Grant)
		d.Lapse("r")
		if err := s.Exec(`SELECT sqlfence.acquire('r', 'B', '1 min')`); State(err) != "SF004" {
			t.Errorf("acquire by somebody else beyond the largest epoch: %v", err)
		}
	})
}

// Purge drops what is idle, and no epoch of it is ever minted again; whatever is
// in use, held or advanced stays.
func TestPurgeNeverBringsAnOldEpochBack(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		a, b := d.Session(), d.Session()
		check := `SELECT sqlfence.pass($1, $2, $3)`
		for range 5 {
			a.Acquire("lapsed", "A")
		}
		old := a.Acquire("lapsed", "A")
		a.Acquire("held", "A")
		used := a.Acquire("used", "A")
		a.Must(`SELECT sqlfence.advance('advanced', 1000000, 0)`)
		a.Acquire("advanced", "A")
		a.Must(`UPDATE sqlfence.leases SET expires_at = clock_timestamp() - interval '2 h' WHERE resource <> 'held'`)
		b.Must(`BEGIN`)
		b.Must(check, used.Resource, used.Epoch, used.Grant) // a guarded transaction is open

		for _, c := range []struct {
			older string
			want  int64
		}{{"3 h", 0}, {"1 h", 1}} {
			var dropped int64
			a.Get(`SELECT sqlfence.purge($1)`, []any{c.older}, &dropped)
			if dropped != c.want {
				t.Errorf("purge of what is idle for %s dropped %d, not %d", c.older, dropped, c.want)
			}
		}
		var left []string
		d.Watch(`SELECT array_agg(resource ORDER BY resource) FROM sqlfence.leases`, nil, &left)
		if !slices.Equal(left, []string{"advanced", "held", "used"}) {
			t.Errorf("after the purge there are %q", left)
		}
		b.Must(`COMMIT`)
		if err := a.Exec(check, old.Resource, old.Epoch, old.Grant); State(err) != "SF002" {
			t.Errorf("a token of a purged resource: %v, not unregistered", err)
		}
		// Not even Advance brings the old token back; one from elsewhere it does.
		var mark int64
		a.Get(`SELECT high_water FROM sqlfence.advance($1, $2, $3)`, []any{old.Resource, old.Epoch, old.Grant}, &mark)
		if err := a.Exec(check, old.Resource, old.Epoch, old.Grant); State(err) != "SF002" {
			t.Errorf("a token of a purged resource, advanced: %v, not unregistered", err)
		}
		if mark < old.Epoch {
			t.Errorf("advance of it answers mark %d", mark)
		}
		for _, resource := range []string{"lapsed", "never seen"} {
			if token := b.Acquire(resource, "B"); token.Epoch <= old.Epoch {
				t.Errorf("%s: epoch %d after a purge at epoch %d", resource, token.Epoch, old.Epoch)
			}
		}
		var floor int64
		d.Watch(`SELECT floor FROM sqlfence.meta`, nil, &floor)
		if floor != old.Epoch {
			t.Errorf("floor %d, not %d: it is for minted epochs, not for advanced ones", floor, old.Epoch)
		}

		// An acquire that waits while its resource is purged sees the new floor.
		token := a.Acquire("w", "A")
		for range 50 {
			token = a.Acquire("w", "A")
		}
		a.Must(`UPDATE sqlfence.leases SET expires_at = clock_timestamp() - interval '2 h' WHERE resource = 'w'`)
		a.Must(`BEGIN`)
		a.Must(`SELECT sqlfence.purge('1 h')`)
		b.Start(`SELECT sqlfence.acquire('w', 'B', '1 min')`)
		b.MustBlock()
		a.Must(`COMMIT`)
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		d.Watch(`SELECT sqlfence.high_water('w')`, nil, &mark)
		if mark <= token.Epoch {
			t.Errorf("epoch %d was granted to an acquire that waited for the purge of epoch %d", mark, token.Epoch)
		}
	})
}

// A request that was abandoned does not take effect, wherever it is at that
// moment: granted, waiting, about to be granted, or not yet there.
func TestAnAbandonedRequestNeverTakesEffect(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		for _, isolation := range isolations {
			t.Run(isolation, func(t *testing.T) {
				d := reopen(t, dsn)
				a, c := d.Session(), d.Session()
				b := d.Session(isolated(isolation))
				first := a.Acquire("r", "A")
				acquire := `SELECT sqlfence.acquire('r', 'B', '1 min', wait => '20 s', request => $1)`
				abandon := func(request int64, want string) {
					t.Helper()
					var outcome string
					c.Get(`SELECT outcome FROM sqlfence.abandon('r', $1, '5 s')`, []any{request}, &outcome)
					if outcome != want {
						t.Errorf("abandon of %d: %s, want %s", request, outcome, want)
					}
				}
				state := func(want string) {
					t.Helper()
					var got string
					d.Watch(`SELECT concat_ws(' ', status, owner, epoch, high_water) FROM sqlfence.inspect('r')`, nil, &got)
					if got != want {
						t.Errorf("r is %s, want %s", got, want)
					}
				}

				// Waiting behind a guarded transaction.
				a.Must(`BEGIN`)
				a.Must(`SELECT sqlfence.pass($1, $2, $3)`, first.Resource, first.Epoch, first.Grant)
				d.Lapse("r")
				b.Start(acquire, int64(1))
				b.MustBlock()
				abandon(1, "ok")
				a.Must(`COMMIT`)
				if err := b.Wait(); State(err) != "57014" && State(err) != "40001" {
					t.Errorf("the abandoned request, waiting: %v", err)
				}
				state("lapsed A 1 1")

				// Not yet there.
				abandon(2, "ok")
				if err := b.Exec(acquire, int64(2)); State(err) != "57014" {
					t.Errorf("the abandoned request, late: %v", err)
				}
				state("lapsed A 1 1")

				// Granted and about to be committed: whoever abandons it waits for that.
				b.Must(`BEGIN`)
				b.Must(acquire, int64(3))
				c.Start(`SELECT sqlfence.abandon('r', 3, '20 s')`)
				c.MustBlock()
				b.Must(`COMMIT`)
				if err := c.Wait(); err != nil {
					t.Error(err)
				}
				state("free 3 3")
				b.Must(`BEGIN`)
				b.Must(acquire, int64(4))
				c.Start(`SELECT sqlfence.abandon('r', 4, '20 s')`)
				c.MustBlock()
				b.Must(`ROLLBACK`)
				if err := c.Wait(); err != nil {
					t.Error(err)
				}
				state("free 3 3")

				// Granted; and held by somebody else meanwhile.
				b.Must(acquire, int64(5))
				abandon(5, "released")
				state("free 5 5")
				b.Must(acquire, int64(6))
				d.Lapse("r")
				a.Acquire("r", "A")
				abandon(6, "ok")
				state("held A 7 7")

				// Granted, and somebody else is taking it over at this moment.
				a.Must(`SELECT sqlfence.release('r', 'A', l.epoch, l.grant_id) FROM sqlfence.leases AS l`)
				b.Must(acquire, int64(7))
				d.Lapse("r")
				a.Must(`BEGIN`)
				a.Acquire("r", "A")
				c.Start(`SELECT sqlfence.abandon('r', 7, '20 s')`)
				if c.Blocked() { // for the turnstile; a lapsed lease need not be released
					t.Error("abandon waits for a takeover of a lease that has lapsed")
				}
				a.Must(`COMMIT`)
				if err := c.Wait(); err != nil {
					t.Error(err)
				}
				state("held A 10 10")

				var n int
				d.Watch(`SELECT count(*) FROM sqlfence.abandoned`, nil, &n)
				if n != 7 {
					t.Errorf("%d requests are noted as abandoned, not 7", n)
				}
				d.watch.Must(`UPDATE sqlfence.abandoned SET at = at - interval '2 days'`)
				d.watch.Must(`SELECT sqlfence.purge('1 h')`)
				d.Watch(`SELECT count(*) FROM sqlfence.abandoned`, nil, &n)
				if n != 0 {
					t.Errorf("%d of them are left after two days and a purge", n)
				}
			})
		}
	})
}

// A transaction of the caller's: the operation is part of it and undone by it.
func TestARollbackUndoesAnOperation(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		a := d.Session()
		first := a.Acquire("r", "A")
		contents := func() (s string) {
			d.Watch(`SELECT concat((SELECT string_agg(l::text, ';') FROM sqlfence.leases l), (SELECT string_agg(f::text, ';') FROM sqlfence.fences f))`, nil, &s)
			return s
		}
		before := contents()
		for _, end := range []string{`ROLLBACK`, `ROLLBACK TO s; COMMIT`} {
			a.Must(`BEGIN; SAVEPOINT s`)
			a.Must(`SELECT sqlfence.renew('r', 'A', $1, $2, '1 h')`, first.Epoch, first.Grant)
			a.Must(`SELECT sqlfence.release('r', 'A', $1, $2)`, first.Epoch, first.Grant)
			second := a.Acquire("r", "B")
			a.Must(`SELECT sqlfence.pass($1, $2, $3)`, second.Resource, second.Epoch, second.Grant)
			a.Must(`SELECT sqlfence.advance('r', 500, 0)`)
			a.Must(end)
			if after := contents(); after != before {
				t.Errorf("after %s: %s, not %s", end, after, before)
			}
		}
		a.Must(`SELECT sqlfence.pass($1, $2, $3)`, first.Resource, first.Epoch, first.Grant)
	})
}

// A mark is durable before it is acknowledged, however the session is set, and
// nothing of that outlives the transaction (G12).
func TestAMarkIsDurableAndLeavesNoSetting(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		for set, want := range map[string]string{"off": "on", "local": "local", "on": "on"} {
			s := d.Session(`SET synchronous_commit = ` + set)
			s.Must(`BEGIN`)
			token := s.Acquire("r"+set, "A")
			var inside, after string
			s.Get(`SHOW synchronous_commit`, nil, &inside)
			s.Must(`COMMIT`)
			s.Get(`SHOW synchronous_commit`, nil, &after)
			if inside != want || after != set {
				t.Errorf("synchronous_commit = %s: %s while acquiring, %s afterwards", set, inside, after)
			}
			s.Must(`BEGIN`)
			s.Must(`SELECT sqlfence.renew($1, 'A', $2, $3, '1 min')`, token.Resource, token.Epoch, token.Grant)
			s.Get(`SHOW synchronous_commit`, nil, &inside)
			s.Must(`COMMIT`)
			if inside != set {
				t.Errorf("synchronous_commit = %s: %s while renewing", set, inside)
			}
			// Settings, and locks of the session rather than the transaction.
			var locks int
			d.Watch(`SELECT count(*) FROM pg_locks WHERE pid = $1`, []any{int32(s.PID)}, &locks)
			if locks != 0 {
				t.Errorf("%d locks are left after the transaction", locks)
			}
		}
	})
}

// Ten programs that start at once all succeed, at any default isolation, and
// again when the schema is there; without superuser rights too.
func TestTenScriptsAtOnce(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := &DB{t: t, DSN: dsn}
		d.watch = d.Session()
		owner := fmt.Sprintf("sqlfence_owner_%d", d.watch.PID)
		app := fmt.Sprintf("sqlfence_App \"%d", d.watch.PID)
		d.watch.Must(`CREATE ROLE ` + owner)
		d.watch.Must(`CREATE ROLE "` + `sqlfence_App ""` + fmt.Sprint(d.watch.PID) + `"`)
		t.Cleanup(func() {
			d.watch.Must(`RESET ROLE; DROP OWNED BY ` + owner + ` CASCADE`)
			for _, role := range []string{owner, `"sqlfence_App ""` + fmt.Sprint(d.watch.PID) + `"`} {
				d.watch.Must(`DROP OWNED BY ` + role + `; DROP ROLE ` + role)
			}
		})
		var database string
		d.watch.Get(`SELECT current_database()`, nil, &database)
		d.watch.Must(`GRANT CREATE ON DATABASE ` + database + ` TO ` + owner)

		for round := range 2 {
			var sessions []*Session
			for i := range 10 {
				sessions = append(sessions, d.Session(isolated(isolations[i%3]), `SET ROLE `+owner))
			}
			for _, s := range sessions {
				s.Start(sqlgen.Schema(sqlgen.PostgreSQL))
			}
			for _, s := range sessions {
				if err := s.Wait(); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			}
		}
		// The application's role, with the grants and with nothing else.
		user := d.Session()
		if err := user.Exec(`SET ROLE "` + `sqlfence_App ""` + fmt.Sprint(d.watch.PID) + `"; SELECT sqlfence.pass('r', 1, 1)`); State(err) != "42501" {
			t.Errorf("a role without grants: %v", err)
		}
		user = d.Session()
		user.Must(sqlgen.Grants(sqlgen.PostgreSQL, app))
		user.Must(`SET ROLE "` + `sqlfence_App ""` + fmt.Sprint(d.watch.PID) + `"`)
		token := user.Acquire("r", "A")
		user.Must(head+`SELECT $1::text`, "x", token.Resource, token.Epoch, token.Grant)
		for _, text := range []string{
			`SELECT * FROM sqlfence.leases`, `UPDATE sqlfence.fences SET high_water = 1`, `DELETE FROM sqlfence.meta`, `TRUNCATE sqlfence.nothing`,
			`CREATE TABLE sqlfence.mine ()`, `SELECT * FROM sqlfence.evict('r', 'A', '0')`,
		} {
			if err := user.Exec(text); State(err) != "42501" {
				t.Errorf("the application may run %s: %v", text, err)
			}
		}
		if err := user.Exec(`INSERT INTO sqlfence.nothing DEFAULT VALUES`); State(err) != "23514" {
			t.Errorf("a row in the table that has none: %v", err)
		}
		// Not as another role than the owner, whose rights the functions would get.
		if err := d.watch.Exec(sqlgen.Schema(sqlgen.PostgreSQL)); State(err) != "SF005" {
			t.Errorf("the script run by another role than the owner: %v", err)
		}
		var version int
		user.Get(sqlgen.VersionSQL(sqlgen.PostgreSQL), nil, &version)
		if version != sqlgen.SchemaVersion {
			t.Errorf("version %d", version)
		}
	})
}

// The floor is everybody's: a resource whose epochs are near their end keeps its row,
// or a purge would bring all others to theirs.
func TestPurgeTakesNobodyToTheEndOfTheEpochs(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		s := d.Session()
		s.Must(`SELECT sqlfence.acquire('far', 'A', '1 min', least_epoch => 9223372036854775807)`)
		s.Must(`SELECT sqlfence.acquire('halfway', 'A', '1 min', least_epoch => 4611686018427387904)`)
		s.Acquire("near", "A")
		s.Must(`UPDATE sqlfence.leases SET expires_at = clock_timestamp() - interval '2 h'`)
		var dropped, floor int64
		s.Get(`SELECT sqlfence.purge('1 h')`, nil, &dropped)
		s.Get(`SELECT floor FROM sqlfence.meta`, nil, &floor)
		if dropped != 2 || floor != 1<<62 {
			t.Errorf("dropped %d, floor %d; want near and halfway, and 2^62", dropped, floor)
		}
		if token := s.Acquire("new", "A"); token.Epoch != 1<<62+1 {
			t.Errorf("epoch %d after the purge, want 2^62+1", token.Epoch)
		}
		if err := s.Exec(`SELECT sqlfence.acquire('far', 'B', '1 min')`); State(err) != "SF004" {
			t.Errorf("the one at its end: %v, want SF004", err)
		}
	})
}

// Each purged resource takes a lock of the server's shared table, which others need too.
func TestPurgeGoesByTheThousand(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		s := Open(t, dsn).Session()
		s.Must(`SELECT sqlfence.acquire('r' || g, 'A', '1 min') FROM generate_series(1, 1100) AS g`)
		s.Must(`UPDATE sqlfence.leases SET expires_at = clock_timestamp() - interval '2 h'`)
		for _, want := range []int64{1000, 100, 0} {
			var dropped int64
			s.Get(`SELECT sqlfence.purge('1 h', 100000)`, nil, &dropped)
			if dropped != want {
				t.Errorf("dropped %d, want %d", dropped, want)
			}
		}
	})
}

// Under the stricter levels the floor is read with a lock: an open purge is waited for
// no longer than for a guarded transaction.
func TestTheWaitForAPurgeIsBounded(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		purge, next := d.Session(), d.Session(`SET lock_timeout = '11s'`)
		purge.Must(`BEGIN`)
		purge.Must(`SELECT sqlfence.purge('1 day')`)
		for _, level := range []string{"repeatable read", "serializable"} {
			next.Must(`SET default_transaction_isolation = '` + level + `'`)
			for _, text := range []string{`SELECT sqlfence.acquire('r', 'A', '1 min', wait => $1)`, `SELECT sqlfence.advance('r', 1000, 0, wait => $1)`} {
				for _, wait := range []string{"0", "1 ms", "120 ms"} {
					if err := next.Exec(text, wait); State(err) != "57014" || detail(err) != "sqlfence: wait bound spent" {
						t.Errorf("%s: %s with wait %s: %v, detail %q", level, text, wait, err, detail(err))
					}
				}
			}
			next.Start(`SELECT sqlfence.acquire($1, 'A', '1 min')`, level)
			next.MustBlock()
			purge.Must(`COMMIT`)
			if err := next.Wait(); err != nil && State(err) != "40001" {
				t.Errorf("%s: after the purge: %v", level, err)
			}
			purge.Must(`BEGIN`)
			purge.Must(`SELECT sqlfence.purge('1 day')`)
		}
		// READ COMMITTED waits for nobody.
		next.Must(`SET default_transaction_isolation = 'read committed'`)
		next.Must(`SELECT sqlfence.acquire('r', 'A', '1 min', wait => '0')`)
		purge.Must(`COMMIT`)
	})
}

// One role migrates and another runs, with default privileges on all that the first
// makes: no table of the fence may be written by them, and nothing be put beside it.
func TestDefaultPrivilegesDoNotOpenTheFence(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := &DB{t: t, DSN: dsn}
		d.watch = d.Session()
		app := fmt.Sprintf(`"sqlfence ""Default %d"`, d.watch.PID)
		d.watch.Must(`CREATE ROLE ` + app)
		t.Cleanup(func() { d.watch.Must(`DROP OWNED BY ` + app + ` CASCADE; DROP ROLE ` + app) })
		for _, what := range []string{"TABLES", "SCHEMAS", "FUNCTIONS"} {
			d.watch.Must(`ALTER DEFAULT PRIVILEGES GRANT ALL ON ` + what + ` TO ` + app + ` WITH GRANT OPTION`)
		}
		d.watch.Must(`CREATE TABLE control (id int)`)
		for range 2 {
			d.watch.Must(sqlgen.Schema(sqlgen.PostgreSQL))
			d.watch.Must(sqlgen.Grants(sqlgen.PostgreSQL, fmt.Sprintf(`sqlfence "Default %d`, d.watch.PID)))
		}
		user := d.Session(`SET ROLE ` + app)
		user.Must(`INSERT INTO control VALUES (1)`)
		for _, text := range []string{
			`UPDATE sqlfence.fences SET high_water = 1`, `DELETE FROM sqlfence.leases`, `INSERT INTO sqlfence.abandoned VALUES (1, now())`,
			`UPDATE sqlfence.meta SET floor = 1`, `TRUNCATE sqlfence.nothing`, `CREATE TABLE sqlfence.mine ()`,
			`CREATE FUNCTION sqlfence.pass(text, int, int) RETURNS bool LANGUAGE sql AS 'SELECT true'`,
			`CREATE TRIGGER t AFTER INSERT ON sqlfence.nothing EXECUTE FUNCTION sqlfence.protected()`,
			`SELECT * FROM sqlfence.evict('r', 'A', '0')`,
		} {
			if err := user.Exec(text); State(err) != "42501" {
				t.Errorf("the application may run %s: %v", text, err)
			}
		}
		token := user.Acquire("r", "A")
		user.Must(head+`SELECT $1::text`, "x", token.Resource, token.Epoch, token.Grant)
	})
}
