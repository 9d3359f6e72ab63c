package fencetest

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlfence/sqlfence/internal/testserver"
)

// G2, G3: 16 writers keep guarded transactions of 20 ms open without a pause, and
// go on when they are stale. A takeover waits for those that were open when it
// began and not for later ones, and renewals do not wait at all.
func TestATakeoverIsBoundedAndRenewalsAreNot(t *testing.T) {
	const (
		writers     = 16
		takeovers   = 10
		takeoverMax = 500 * time.Millisecond
		renewalMax  = 250 * time.Millisecond
	)
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		d.watch.Must(table)
		d.watch.Must(`INSERT INTO d SELECT g, 'before' FROM generate_series(1, 16) g`)
		next, keeper := d.Session(), d.Session()
		token := next.Acquire("r", "A")

		var mu sync.Mutex // token
		stop := make(chan struct{})
		var work sync.WaitGroup
		var passed, fenced int
		for i := range writers {
			s := d.Session()
			write := combined + `UPDATE d SET v = $1` + combinedWhere + `(id = ` + strconv.Itoa(i+1) + `)`
			work.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					mu.Lock()
					held := token
					mu.Unlock()
					// Two writes with the same token, however old it has become.
					for range 2 {
						err := s.Exec(`BEGIN`)
						if err == nil {
							err = s.Exec(write, "x", held.Resource, held.Epoch, held.Grant)
						}
						if err == nil {
							err = s.Exec(`SELECT pg_sleep(0.02)`)
						}
						mu.Lock()
						switch {
						case err == nil:
							passed++
						case State(err) == "SF001":
							fenced++
						default:
							t.Errorf("guarded transaction: %v", err)
						}
						mu.Unlock()
						if err := s.Exec(`COMMIT`); err != nil {
							t.Errorf("commit: %v", err)
						}
					}
				}
			})
		}

		var renewals []time.Duration
		renewed := make(chan struct{})
		keeper.Must(`SELECT 1 FROM sqlfence.acquire('other', 'K', '1 min')`)
		go func() {
			defer close(renewed)
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Of the contended resource and of another one in one batch, whatever
				// the first is worth: its row may be locked for a moment.
				start := time.Now()
				var other string
				err := keeper.Query(`SELECT max(outcome) FILTER (WHERE "position" = 2) FROM sqlfence.renew_batch('{r,other}', '{A,K}',
					ARRAY[(SELECT epoch FROM sqlfence.leases WHERE resource = 'r'), (SELECT epoch FROM sqlfence.leases WHERE resource = 'other')],
					ARRAY[(SELECT grant_id FROM sqlfence.leases WHERE resource = 'r'), (SELECT grant_id FROM sqlfence.leases WHERE resource = 'other')],
					'{1 min,1 min}')`, nil, &other)
				if err != nil || other != "ok" {
					t.Errorf("renewal: %s, %v", other, err)
					return
				}
				renewals = append(renewals, time.Since(start))
			}
		}()

		var waits []time.Duration
		for range takeovers {
			// Let the writers write under the token they have.
			before := func() int { mu.Lock(); defer mu.Unlock(); return passed + fenced }()
			for func() int { mu.Lock(); defer mu.Unlock(); return passed + fenced }() < before+2*writers {
				d.waiting(next.PID) // a round trip, as a pause
			}
			start := time.Now()
			won := next.Acquire("r", "A")
			waits = append(waits, time.Since(start))
			mu.Lock()
			token = won
			mu.Unlock()
		}
		close(stop)
		work.Wait()
		<-renewed
		slices.Sort(waits)
		slices.Sort(renewals)
		t.Logf("takeovers: median %v, longest %v; %d renewals: median %v, longest %v; %d guarded transactions passed, %d fenced",
			waits[len(waits)/2], waits[len(waits)-1], len(renewals), renewals[len(renewals)/2], renewals[len(renewals)-1], passed, fenced)
		bounded(t, "takeover", waits, takeoverMax)
		bounded(t, "renewal", renewals, renewalMax)
		if passed == 0 || fenced == 0 {
			t.Errorf("%d guarded transactions passed and %d were fenced: the load was not what it should be", passed, fenced)
		}
	})
}

// bounded fails the test if one in ten of the times, which are sorted, is above the bound,
// or one far above it: a machine that is busy with something else for a moment makes one
// of them long, and a queue that is not fair makes many long or one endless.
func bounded(t *testing.T, what string, times []time.Duration, bound time.Duration) {
	t.Helper()
	if often := times[len(times)*9/10]; often > bound {
		t.Errorf("one in ten %ss took %v and longer, more than %v", what, often, bound)
	}
	if longest := times[len(times)-1]; longest > 10*bound {
		t.Errorf("a %s took %v, far more than %v", what, longest, bound)
	}
}

// A guarded transaction that stays open blocks a takeover until its bound, and is
// named; those that only queue are not.
func TestBlockersAreTheHoldersAndNotTheQueue(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		a := d.Session(`SET application_name = 'holder'`)
		p, next, queued := d.Session(), d.Session(), d.Session(`SET application_name = 'queued'`)
		token := a.Acquire("r", "A")
		check := `SELECT sqlfence.pass($1, $2, $3)`
		args := []any{token.Resource, token.Epoch, token.Grant}
		a.Must(`BEGIN`)
		a.Must(check, args...)
		gid := "sqlfence " + strconv.Itoa(int(p.PID))
		p.Must(`BEGIN`)
		p.Must(check, args...)
		p.Must(`PREPARE TRANSACTION '` + gid + `'`)
		next.Start(AcquireSQL, "r", "A")
		next.MustBlock()
		queued.Start(check, args...)
		queued.MustBlock()

		var pids []int32
		var names, gids []string
		var young bool
		d.Watch(`SELECT array_agg(pid ORDER BY pid) FILTER (WHERE pid IS NOT NULL),
			array_agg(application_name) FILTER (WHERE pid IS NOT NULL), array_agg(prepared) FILTER (WHERE prepared IS NOT NULL),
			bool_and(age >= '0' AND age < '1 min') FROM sqlfence.blockers('r')`, nil, &pids, &names, &gids, &young)
		if !slices.Equal(pids, []int32{int32(a.PID)}) || !slices.Equal(names, []string{"holder"}) ||
			!slices.Equal(gids, []string{gid}) || !young {
			t.Errorf("blockers: pids %v, applications %q, prepared %q, ages right %t; want pid %d, holder, %q", pids, names, gids, young, a.PID, gid)
		}

		a.Must(`COMMIT`)
		p.Must(`ROLLBACK PREPARED '` + gid + `'`)
		if err := next.Wait(); err != nil {
			t.Errorf("takeover after the blockers have gone: %v", err)
		}
		if err := queued.Wait(); State(err) != "SF001" {
			t.Errorf("the guarded statement that queued behind the takeover: %v, not fenced", err)
		}
	})
}

// The bound of the wait is the function's own: it neither takes over nor leaves
// behind a lock_timeout, and a cancel stays a cancel.
func TestTheWaitIsBounded(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		holder, next := d.Session(), d.Session(`SET lock_timeout = '11s'`)
		token := holder.Acquire("r", "A")
		holder.Must(`BEGIN`)
		holder.Must(`SELECT sqlfence.pass($1, $2, $3)`, token.Resource, token.Epoch, token.Grant)

		for _, op := range []struct{ name, text string }{
			{"acquire", `SELECT sqlfence.acquire('r', 'A', '1 min', wait => $1)`},
			{"release", `SELECT sqlfence.release('r', 'A', (SELECT epoch FROM sqlfence.leases), (SELECT grant_id FROM sqlfence.leases), wait => $1)`},
			{"advance", `SELECT sqlfence.advance('r', 1000, 0, wait => $1)`},
		} {
			for _, wait := range []string{"0", "1 ms", "120 ms"} {
				start := time.Now()
				err := next.Exec(op.text, wait)
				took := time.Since(start)
				if State(err) != "57014" || detail(err) != "sqlfence: wait bound spent" {
					t.Errorf("%s with wait %s: %v, detail %q", op.name, wait, err, detail(err))
				}
				if took > 2*time.Second {
					t.Errorf("%s with wait %s took %v", op.name, wait, took)
				}
			}
			for _, wait := range []string{"-1 ms", "-1 year", ""} {
				var arg any = wait
				if wait == "" {
					arg = nil
				}
				if err := next.Exec(op.text, arg); State(err) != "SF003" {
					t.Errorf("%s with wait %q: %v, not invalid input", op.name, wait, err)
				}
			}
			// Longer than lock_timeout can say: clipped, never 0 and never an overflow.
			next.Start(op.text, "300 years")
			next.MustBlock()
			d.watch.Must(`SELECT pg_cancel_backend($1)`, int32(next.PID))
			if err := next.Wait(); State(err) != "57014" || detail(err) != "" {
				t.Errorf("%s, cancelled: %v, detail %q", op.name, err, detail(err))
			}
			next.Must(`SET statement_timeout = '50ms'`)
			if err := next.Exec(op.text, "10 s"); State(err) != "57014" || detail(err) != "" {
				t.Errorf("%s, statement_timeout: %v, detail %q", op.name, err, detail(err))
			}
			next.Must(`SET statement_timeout = 0`)
		}

		// In a transaction of the caller's, and after an error that it survives.
		next.Must(`BEGIN`)
		next.Must(`SELECT sqlfence.acquire('free', 'B', '1 min', wait => '5 s')`)
		next.Must(`SAVEPOINT s`)
		if err := next.Exec(`SELECT sqlfence.acquire('r', 'A', '1 min', wait => '1 ms')`); State(err) != "57014" {
			t.Error(err)
		}
		next.Must(`ROLLBACK TO s`)
		var timeout string
		next.Get(`SHOW lock_timeout`, nil, &timeout)
		if timeout != "11s" {
			t.Errorf("lock_timeout is %s inside the transaction, not the session's 11s", timeout)
		}
		next.Must(`COMMIT`)
		next.Get(`SHOW lock_timeout`, nil, &timeout)
		if timeout != "11s" {
			t.Errorf("lock_timeout is %s after the transaction, not the session's 11s", timeout)
		}
	})
}

func detail(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Detail
	}
	return ""
}

// A transaction of somebody's that has acquired and stays open is in the way as well,
// and one that has acquired and was prepared. What only waits for its turn is not.
func TestAnOpenAcquireIsABlocker(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		idle, p, next := d.Session(`SET application_name = 'idle'`), d.Session(), d.Session()
		gid := "sqlfence acquire " + strconv.Itoa(int(p.PID))
		for _, s := range []*Session{idle, p} {
			s.Must(`BEGIN`)
			s.Acquire("r of "+strconv.Itoa(int(s.PID)), "A")
		}
		p.Must(`PREPARE TRANSACTION '` + gid + `'`)
		var pid, age, application, prepared *string
		d.Watch(`SELECT pid::text, application_name, prepared FROM sqlfence.blockers('r of `+strconv.Itoa(int(p.PID))+`')`, nil, &pid, &application, &prepared)
		if pid != nil || prepared == nil || *prepared != gid {
			t.Errorf("blockers: %v, %v; want the prepared transaction", pid, prepared)
		}
		p.Must(`ROLLBACK PREPARED '` + gid + `'`)

		resource := "r of " + strconv.Itoa(int(idle.PID))
		next.Start(AcquireSQL, resource, "B")
		next.MustBlock()
		d.Watch(`SELECT pid::text, application_name, age::text FROM sqlfence.blockers('`+resource+`')`, nil, &pid, &application, &age)
		if pid == nil || *pid != strconv.Itoa(int(idle.PID)) || *application != "idle" || age == nil {
			t.Errorf("blockers: %v; want pid %d", pid, idle.PID)
		}
		d.Watch(`SELECT pid::text FROM sqlfence.evict('`+resource+`', 'B', '0')`, nil, &pid)
		if pid == nil || *pid != strconv.Itoa(int(idle.PID)) {
			t.Errorf("evicted: %v; want pid %d", pid, idle.PID)
		}
		if err := next.Wait(); err != nil {
			t.Errorf("takeover after the eviction: %v", err)
		}
	})
}
