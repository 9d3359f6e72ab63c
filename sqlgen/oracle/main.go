// Command oracle proves sqlgen against parsers and engines that are not ours.
//
// For every statement of a folder of corpora that PostgreSQL's own grammar
// accepts it compares the tree of the spliced text with the tree of the
// original to which the expected edit was applied, and reports every statement
// that writes and would have passed unguarded.
//
// It then replays the statements on twin databases, bare, spliced with a valid
// token and spliced with a stale one: on SQLite, and on the servers that flags or
// the environment name. Servers are replayed on at the same time, one replay on
// each.
//
//	go run . [-list] [-trees] [-postgres urls] [-mysql dsns] [-mutate duration] [-seed n] [folder]
//
// It ends with one line of counts and exits with 1 when anything was wrong or
// missed, with 2 when it could not run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// replays are those on servers: what is to be replayed on each URL of a list.
var replays = []struct {
	flag, environment string
	run               func(ctx context.Context, dsn string, statements []statement, total *tally) error
	mutations         func(ctx context.Context, dsn string, statements []statement, total *tally, seed uint64, d time.Duration) error // nil: they need no server
}{
	{"postgres", "SQLFENCE_TEST_POSTGRES", postgresReplays, nil},
	{"mysql", "SQLFENCE_TEST_MYSQL", mysqlReplays, mysqlMutations},
}

func main() {
	mutate := flag.Duration("mutate", 0, "then judge mutated statements for so long")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the mutations")
	list := flag.Bool("list", false, "list all refused single writes, not one for each reason")
	quick := flag.Bool("trees", false, "no replays on servers, which take 5 to 20 minutes")
	servers := make([]*string, len(replays))
	for i, r := range replays {
		servers[i] = flag.String(r.flag, os.Getenv(r.environment), "the superusers of the servers to replay on, separated by commas")
	}
	flag.Parse()
	folder := defaultFolder()
	if flag.NArg() == 1 {
		folder = flag.Arg(0)
	} else if flag.NArg() > 1 {
		flag.Usage()
		os.Exit(2)
	}
	statements, err := readCorpora(folder)
	if err != nil {
		fatal(err)
	}
	fmt.Printf("%d statements of %s:", len(statements), folder)
	dialects := map[string]int{}
	for _, s := range statements {
		dialects[s.Dialect]++
	}
	for _, d := range byCount(dialects) {
		fmt.Printf(" %d for %s", dialects[d], d)
	}
	fmt.Println(". All are read as PostgreSQL's too.")
	var onServers []*serverReplay
	for i, r := range replays {
		for _, dsn := range strings.Split(*servers[i], ",") {
			if dsn = strings.TrimSpace(dsn); dsn != "" && !*quick {
				on := &serverReplay{run: func(total *tally) error { return r.run(context.Background(), dsn, statements, total) }}
				if r.mutations != nil {
					on.mutations = func(total *tally, seed uint64, d time.Duration) error {
						return r.mutations(context.Background(), dsn, statements, total, seed, d)
					}
				}
				onServers = append(onServers, on)
			}
		}
	}
	var running sync.WaitGroup
	for _, r := range onServers {
		running.Go(func() { r.err = r.run(&r.total) })
	}
	var total tally
	trees(statements, &total, *list)
	if err := sqliteReplay(statements, &total, *list); err != nil {
		fatal(err)
	}
	running.Wait()
	for _, r := range onServers {
		err = errors.Join(err, r.err)
		total.statements += r.total.statements
		total.spliced += r.total.spliced
		total.refused += r.total.refused
		total.wrong += r.total.wrong
		total.missed += r.total.missed
	}
	if err != nil {
		fatal(err)
	}
	if *mutate > 0 {
		if err := mutations(statements, &total, *seed, *mutate); err != nil {
			fatal(err)
		}
		for _, on := range onServers {
			if on.mutations == nil {
				continue
			}
			if err := on.mutations(&total, *seed, *mutate); err != nil {
				fatal(err)
			}
		}
	}
	fmt.Printf("corpora: %d statements, %d spliced, %d refused, %d wrong, %d writes passed unguarded\n",
		total.statements, total.spliced, total.refused, total.wrong, total.missed)
	if total.wrong+total.missed > 0 {
		os.Exit(1)
	}
}

// serverReplay is the replay on one server.
type serverReplay struct {
	run       func(total *tally) error
	mutations func(total *tally, seed uint64, d time.Duration) error
	total     tally
	err       error
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(2)
}

// tally counts over everything judged.
type tally struct {
	statements, writes, spliced, checked, refused, wrong, missed int

	singles, singlesRefused int
	seen                    map[string]int // findings by what and how often, so that each kind is printed a few times only
}

func (t *tally) add(v verdict) {
	t.statements++
	if v.Write {
		t.writes++
	}
	switch v.Plan.Strategy {
	case sqlgen.Splice:
		t.spliced++
	case sqlgen.CheckFirst:
		t.checked++
	case sqlgen.Refuse:
		t.refused++
	}
	if v.SingleWrite {
		t.singles++
		if v.Plan.Strategy != sqlgen.Splice {
			t.singlesRefused++
		}
	}
	for _, f := range v.Findings {
		if f.Missed {
			t.missed++
		} else {
			t.wrong++
		}
		t.print(f)
	}
}

func (t *tally) print(f finding) {
	if t.seen == nil {
		t.seen = map[string]int{}
	}
	if t.seen[f.What]++; t.seen[f.What] > 3 {
		return
	}
	kind := "WRONG"
	if f.Missed {
		kind = "MISSED"
	}
	fmt.Printf("%s: %s\n  text:    %s\n", kind, f.What, quote(f.Text))
	if f.Spliced != "" {
		fmt.Printf("  spliced: %s\n", quote(f.Spliced))
	}
}

func quote(text string) string {
	q := fmt.Sprintf("%q", text)
	if !strings.Contains(text, "`") && !strings.ContainsAny(text, "\r\v\f\ufeff\u00a0\u3000\u2028") {
		q = "`" + text + "`"
	}
	return q
}

// trees judges every statement of the corpora as PostgreSQL text.
func trees(statements []statement, total *tally, list bool) {
	notParsed := 0
	var refused refusals
	for _, s := range statements {
		v := judgeText(s.SQL)
		if !v.Parsed {
			notParsed++
			for _, f := range v.Findings {
				total.wrong++
				total.print(f)
			}
			continue
		}
		total.add(v)
		if v.SingleWrite && v.Plan.Strategy != sqlgen.Splice {
			refused.add(v.Plan, s.Corpus+": "+quote(s.SQL))
		}
	}
	fmt.Printf("PostgreSQL: %d statements parsed (%d are no PostgreSQL 17), %d write; %d spliced, %d checked first, %d refused\n",
		total.statements, notParsed, total.writes, total.spliced, total.checked, total.refused)
	fmt.Printf("PostgreSQL: %d single writes, %d of them not spliced\n", total.singles, total.singlesRefused)
	refused.print(list)
}

// mutations judges mutated statements for a while: as PostgreSQL text half of
// the time, as SQLite text the other half.
func mutations(statements []statement, total *tally, seed uint64, d time.Duration) error {
	var texts, sqliteTexts []string
	for _, s := range statements {
		texts = append(texts, s.SQL)
		if s.Dialect == "sqlite" || singleWrite.MatchString(s.SQL) {
			sqliteTexts = append(sqliteTexts, asSent(s))
		}
	}
	fmt.Printf("mutations: seed %d\n", seed)
	m := newMutator(seed, texts, oddPostgreSQL, framesPostgreSQL)
	made, parsed, before := 0, 0, *total
	var refused refusals
	for end := time.Now().Add(d / 2); time.Now().Before(end); {
		text := m.next()
		made++
		v := judgeText(text)
		if v.Parsed {
			parsed++
			total.add(v)
			if v.SingleWrite && v.Plan.Strategy != sqlgen.Splice {
				refused.add(v.Plan, quote(text))
			}
			if v.SingleWrite == (parsed%4 > 0) {
				m.keep(text, v.SingleWrite)
			}
			continue
		}
		for _, f := range v.Findings {
			total.wrong++
			total.print(f)
		}
	}
	fmt.Printf("PostgreSQL mutations: %d made, %d parsed, %d write, %d spliced, %d of %d single writes not spliced\n", made, parsed,
		total.writes-before.writes, total.spliced-before.spliced, total.singlesRefused-before.singlesRefused, total.singles-before.singles)
	refused.print(false)

	m = newMutator(seed, sqliteTexts, oddSQLite, framesSQLite)
	t := &sqliteTwins{total: total}
	defer t.close()
	made = 0
	touched := true // the fence itself, perhaps
	for end := time.Now().Add(d / 2); time.Now().Before(end); {
		if touched || made%500 == 0 {
			if err := t.reset(); err != nil {
				return err
			}
		}
		text := m.next()
		touched = strings.Contains(strings.ToLower(text), "sqlfence_")
		made++
		if t.judge(text, "mutation") {
			m.keep(text, singleWrite.MatchString(text))
		}
	}
	total.statements += t.compiled
	total.spliced += t.spliced
	total.refused += t.refused
	fmt.Printf("SQLite mutations: %d made, %d compiled, %d write, %d spliced and replayed, %d checked first, %d refused\n", made, t.compiled, t.writes, t.replayed, t.checked, t.refused)
	t.refusals.print(false)
	return nil
}
