package testserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

// EnvMajors names the majors of PostgreSQL that a run is to test against instead,
// separated by white space or commas: "13 14 16 17", or "all" for every one that
// is supported.
const EnvMajors = "SQLFENCE_TEST_POSTGRES_MAJORS"

// wantedPostgreSQL returns what EnvMajors asks for.
func wantedPostgreSQL(majors string) ([]postgreSQLWanted, error) {
	if strings.TrimSpace(majors) == "" {
		return postgreSQLRun, nil
	}
	var wanted []postgreSQLWanted
	if strings.TrimSpace(majors) == "all" {
		for major := oldestPostgreSQL; major <= newestPostgreSQL; major++ {
			wanted = append(wanted, postgreSQLWanted{fmt.Sprintf("PostgreSQL %d", major), major, major})
		}
		return wanted, nil
	}
	for _, m := range strings.FieldsFunc(majors, func(r rune) bool { return r == ' ' || r == ',' }) {
		major, err := strconv.Atoi(m)
		if err != nil || major < oldestPostgreSQL || major > newestPostgreSQL {
			return nil, fmt.Errorf("%s names %q: the supported majors are %d to %d", EnvMajors, m, oldestPostgreSQL, newestPostgreSQL)
		}
		wanted = append(wanted, postgreSQLWanted{fmt.Sprintf("PostgreSQL %d", major), major, major})
	}
	return wanted, nil
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
