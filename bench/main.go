// Command bench measures what the fence costs, beside the ways in which one
// would do without it.
//
//	cd bench && go run .                      # all; some ten minutes
//	cd bench && go run . -short               # a few seconds, numbers not to be trusted
//	cd bench && go run . -dsn postgres://…    # your own PostgreSQL server
//
// Each round measures every way once, one after the other, and each result is
// a ratio to the bare driver in the same round, so that a machine that grows
// faster or slower during the run does not favour anybody. The program prints
// a table, and writes it with all that is needed to repeat it to RESULTS.md,
// and a chart to results.svg.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	rounds  int
	seconds float64 // per cell
	engines []string
	clients []int
	dsn     string // PostgreSQL to use instead of a throwaway server
	own     bool   // each client has a resource of its own
	out     string // the folder to write to, or "" not to write
	compare bool

	command string // the command line, without what is private or of no consequence
}

// errAims: the run is complete, but a result falls short of an aim.
var errAims = errors.New("a result falls short of its aim")

func main() {
	o, err := parseFlags(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, o)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (options, error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := f.Int("rounds", 15, "`number` of rounds")
	seconds := f.Float64("seconds", 0.3, "`seconds` for which each cell is measured in each round")
	engines := f.String("engines", "postgres,sqlite", "`engines` to measure")
	clients := f.String("clients", "1,8,32", "`numbers` of concurrent clients")
	resource := f.String("resource", "shared", "`kind` of lease: shared (all clients write under one) or own (each client has one)")
	dsn := f.String("dsn", "", "`URL` of the PostgreSQL database to use (it gets the schema sqlfence, and tables sqlfence_bench_… which are dropped); default: a throwaway server of each version that the tests use")
	out := f.String("out", ownFolder(), "`folder` to write RESULTS.md and results.svg to")
	short := f.Bool("short", false, "two very short rounds with 1 and 8 clients, and nothing is written unless -out is given: to see that it runs")
	compare := f.Bool("compare", false, "fail if a result falls short of its aim")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	given := map[string]bool{}
	command := "go run ."
	f.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		switch f.Name {
		case "dsn": // may hold a password
			command += " -dsn …"
		case "out":
		default:
			command += " -" + f.Name + "=" + f.Value.String()
		}
	})
	if *short {
		for name, set := range map[string]func(){
			"rounds":  func() { *rounds = 2 },
			"seconds": func() { *seconds = 0.03 },
			"clients": func() { *clients = "1,8" },
			"out":     func() { *out = "" },
		} {
			if !given[name] {
				set()
			}
		}
	}
	o := options{rounds: *rounds, seconds: *seconds, dsn: *dsn, out: *out, compare: *compare, command: command}
	switch *resource {
	case "shared":
	case "own":
		o.own = true
	default:
		return options{}, fmt.Errorf("-resource %q is neither shared nor own", *resource)
	}
	for _, e := range strings.Split(*engines, ",") {
		if e != "postgres" && e != "sqlite" {
			return options{}, fmt.Errorf("-engines: %q is neither postgres nor sqlite", e)
		}
		o.engines = append(o.engines, e)
	}
	for _, c := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(c)
		if err != nil || n < 1 || n > 64 {
			return options{}, fmt.Errorf("-clients: %q is not a number from 1 to 64", c)
		}
		o.clients = append(o.clients, n)
	}
	slices.Sort(o.clients)
	o.clients = slices.Compact(o.clients)
	if o.rounds < 1 || o.seconds <= 0 {
		return options{}, errors.New("-rounds and -seconds must be positive")
	}
	return o, nil
}

// ownFolder is bench/, whether it is run from there or from the root.
func ownFolder() string {
	if _, err := os.Stat("bench/go.mod"); err == nil {
		return "bench"
	}
	return "."
}

// run measures, prints and writes.
func run(ctx context.Context, o options) (err error) {
	servers, stop, err := postgreSQLServers(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var targets []*target
	defer func() {
		for _, t := range targets {
			err = errors.Join(err, t.close())
		}
	}()
	for _, dsn := range servers {
		t, err := openPostgreSQL(ctx, dsn, o)
		if err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		targets = append(targets, t)
	}
	if slices.Contains(o.engines, "sqlite") {
		t, err := openSQLite(ctx, o)
		if err != nil {
			return fmt.Errorf("SQLite: %w", err)
		}
		targets = append(targets, t)
	}

	results := newResults(o, targets)
	cell := time.Duration(o.seconds * float64(time.Second))
	for round := range o.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
		for _, t := range targets {
			for _, clients := range o.clients {
				if err := t.round(ctx, round, clients, cell, results); err != nil {
					return fmt.Errorf("%s, %d clients: %w", t.name, clients, err)
				}
			}
		}
	}
	if results.splicing, err = measureSplicing(cell / 4); err != nil {
		return err
	}

	text := results.markdown()
	fmt.Print(text)
	if o.out != "" {
		if err := os.WriteFile(filepath.Join(o.out, "RESULTS.md"), []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.out, "results.svg"), []byte(results.chart()), 0o644); err != nil {
			return err
		}
	}
	if o.compare && !results.aimsMet() {
		return errAims
	}
	return nil
}
