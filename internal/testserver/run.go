package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// engine is a kind of server that a run brings up. A further one is an entry in
// engines, a file like postgres.go, and a function like PostgreSQL for its tests.
type engine struct {
	name  string // for people
	env   string // names its servers, separated by commas
	named func(ctx context.Context, list string) ([]Server, error)
	start []func(ctx context.Context) (*Instance, error) // one per server
}

func engines() []engine {
	postgres := engine{name: "PostgreSQL", env: EnvPostgreSQL, named: namedPostgreSQL}
	versions, err := wantedPostgreSQL(os.Getenv(EnvMajors))
	if err != nil {
		postgres.start = append(postgres.start, func(context.Context) (*Instance, error) { return nil, err })
	}
	for _, wanted := range versions {
		postgres.start = append(postgres.start, wanted.start)
	}
	return []engine{
		postgres,
		{name: "MariaDB or MySQL", env: EnvMySQL, named: namedMySQL, start: startEveryMySQL()},
		{name: "Redis", env: EnvRedis, named: namedRedis, start: []func(context.Context) (*Instance, error){startAnyRedis}},
	}
}

// Run is the servers of one run of all tests.
type Run struct {
	Servers []RunServer
	started []*Instance
}

// RunServer is a server of a run, or the engine that is linked into the tests.
type RunServer struct {
	Engine  string
	Version string
	Origin  string // where it came from, for people
	env     string
	dsn     string
}

// StartRun brings up a server for each engine and version that a run tests
// against, unless the environment names them. On an error nothing is left
// running. The caller calls Stop.
func StartRun(ctx context.Context) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	run := &Run{}
	var errs []error
	var all sync.WaitGroup
	type outcome struct {
		engine   engine
		instance *Instance
		err      error
	}
	var outcomes []*outcome
	for _, e := range engines() {
		if list := os.Getenv(e.env); list != "" {
			servers, err := e.named(ctx, list)
			errs = append(errs, err)
			for _, s := range servers {
				run.Servers = append(run.Servers, RunServer{s.Engine, s.Version, "named by " + e.env, e.env, s.DSN})
			}
			continue
		}
		for _, start := range e.start {
			o := &outcome{engine: e}
			outcomes = append(outcomes, o)
			all.Go(func() { o.instance, o.err = start(ctx) })
		}
	}
	all.Wait()
	for _, o := range outcomes {
		errs = append(errs, o.err)
		if i := o.instance; i != nil {
			run.started = append(run.started, i)
			run.Servers = append(run.Servers, RunServer{i.Engine, i.Version, i.Origin, o.engine.env, i.DSN})
		}
	}
	pooler, err := pgBouncer()
	errs = append(errs, err)
	run.Servers = append(run.Servers, RunServer{"PgBouncer", pooler.version, pooler.origin, EnvPgBouncer, pooler.program})
	version, err := sqliteVersion()
	errs = append(errs, err)
	run.Servers = append(run.Servers, RunServer{Engine: "SQLite", Version: version, Origin: "modernc.org/sqlite, linked into the tests"})
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, run.Stop())
	}
	return run, nil
}

// Env returns the variables that name the servers, as "NAME=value".
func (r *Run) Env() []string {
	var names []string
	lists := map[string][]string{}
	for _, s := range r.Servers {
		if s.env == "" {
			continue
		}
		if lists[s.env] == nil {
			names = append(names, s.env)
		}
		lists[s.env] = append(lists[s.env], s.dsn)
	}
	var env []string
	for _, name := range names {
		env = append(env, name+"="+strings.Join(lists[name], ","))
	}
	return env
}

// Stop ends the servers that the run has started.
func (r *Run) Stop() error {
	var errs []error
	for _, i := range r.started {
		errs = append(errs, i.Stop())
	}
	return errors.Join(errs...)
}

// Unused returns the servers of the run that no test has used.
func (r *Run) Unused(uses []Use) []RunServer {
	var unused []RunServer
	for _, s := range r.Servers {
		used := false
		for _, u := range uses {
			used = used || u.Engine == s.Engine && u.Version == s.Version
		}
		if !used {
			unused = append(unused, s)
		}
	}
	return unused
}

// String tells engine, version and origin on one line.
func (s RunServer) String() string {
	return fmt.Sprintf("%s %s (%s)", s.Engine, s.Version, s.Origin)
}
