// Command leases measures what holding a lease costs, beside the libraries and
// statements that do without a fence.
//
//	make bench-leases                       # all; some four minutes
//	make bench-leases ARGS=-short           # seconds, numbers not to be trusted
//
// It measures on throwaway servers, or on those that the tests' environment
// variables name (each gets a database of its own, which is dropped). Rates are
// ratios within one round, the ways interleaved, so that a machine that grows
// faster or slower during the run favours nobody. The tables go to the standard
// output and to LEASES.md.
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
	"strings"
	"time"
)

// options are the flags.
type options struct {
	rounds  int
	seconds float64 // per cell of the rates
	engines []string
	out     string // the folder to write to, or "" not to write

	samples   int           // of each handover in each run
	runs      int           // of the handovers
	waited    time.Duration // before a release that a poller is to see
	leases    []int         // held by one process
	ttl       time.Duration // of those
	intervals int           // that are counted

	command string // the command line, without what is of no consequence
}

var allEngines = []string{"postgres", "mysql", "sqlite", "redis"}

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
		fmt.Fprintln(os.Stderr, "leases:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (options, error) {
	o := options{
		samples: 200, runs: 3, waited: 1500 * time.Millisecond,
		leases: []int{1, 100, 10_000}, ttl: 15 * time.Second, intervals: 3,
	}
	f := flag.NewFlagSet("leases", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 7, "`number` of rounds of the rates")
	f.Float64Var(&o.seconds, "seconds", 0.3, "`seconds` for which each rate is measured in each round")
	engines := f.String("engines", strings.Join(allEngines, ","), "`engines` to measure")
	f.StringVar(&o.out, "out", "..", "`folder` to write LEASES.md to")
	short := f.Bool("short", false, "one very short round, fewer leases, and nothing is written unless -out is given: to see that it runs")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	given := map[string]bool{}
	o.command = "make bench-leases"
	var shown []string
	f.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		if f.Name != "out" {
			shown = append(shown, "-"+f.Name+"="+f.Value.String())
		}
	})
	if len(shown) > 0 {
		o.command += " ARGS='" + strings.Join(shown, " ") + "'"
	}
	if *short {
		for name, set := range map[string]func(){
			"rounds":  func() { o.rounds = 1 },
			"seconds": func() { o.seconds = 0.03 },
			"out":     func() { o.out = "" },
		} {
			if !given[name] {
				set()
			}
		}
		o.samples, o.runs, o.waited = 10, 1, 100*time.Millisecond
		o.leases, o.ttl, o.intervals = []int{1, 100}, 3*time.Second, 1
	}
	for _, e := range strings.Split(*engines, ",") {
		if !slices.Contains(allEngines, e) {
			return options{}, fmt.Errorf("-engines: %q is none of %s", e, strings.Join(allEngines, ", "))
		}
		o.engines = append(o.engines, e)
	}
	if o.rounds < 1 || o.seconds <= 0 {
		return options{}, errors.New("-rounds and -seconds must be positive")
	}
	return o, nil
}

// run measures, prints and writes.
func run(ctx context.Context, o options) (err error) {
	places, stop, err := openPlaces(ctx, o)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	r := newResults(o, places)
	for _, step := range []struct {
		what string
		do   func(context.Context, options, []*place, *results) error
	}{
		{"round trips", countTrips},
		{"acquire and release", measureRates},
		{"release to acquire", measureHandovers},
		{"statements per interval", countIntervals},
	} {
		fmt.Fprintln(os.Stderr, step.what)
		if err := step.do(ctx, o, places, r); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	text := r.markdown()
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(o.out, "LEASES.md"), []byte(text), 0o644)
}
