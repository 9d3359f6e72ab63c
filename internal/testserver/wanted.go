package testserver

import (
	"context"
	"errors"
	"fmt"
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

func (w postgreSQLWanted) start(ctx context.Context) (*Instance, error) {
	versions := fmt.Sprintf("%d to %d", w.oldest, w.newest)
	if w.oldest == w.newest {
		versions = fmt.Sprint(w.newest)
	}
	return startFirst(ctx, []source{
		{"programs on this machine", w.startInstalled},
		{"npm package", w.startPackaged},
		{"container", w.startContainer},
		{"Debian package", w.startDebian},
	}, fmt.Sprintf("no server for %s (version %s).\n"+
		"Install one of these and run again: PostgreSQL %s with its server programs (Debian, Ubuntu: apt-get install postgresql; "+
		"macOS: brew install postgresql@%d); or npm, which brings one; or a running Docker or Podman.\n"+
		"Or name servers of yours: %s=postgres://superuser@host:5432/postgres[,…]",
		w.name, versions, versions, w.newest, EnvPostgreSQL))
}

func (w postgreSQLWanted) startInstalled(ctx context.Context) (*Instance, error) {
	in, err := w.installed()
	if err != nil {
		return nil, err
	}
	return in.start(ctx)
}

func (w postgreSQLWanted) installed() (installation, error) {
	for _, in := range installedPostgreSQL() {
		if w.fits(in.major()) {
			return in, nil
		}
	}
	return installation{}, errors.New("none found on the PATH or in the usual places")
}
