package testserver

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Standby starts a standby of a PostgreSQL: a copy of its data as they are now,
// which then follows it asynchronously. To make the copy it stops the server and
// starts it again, so that no program is needed but the server's own. The standby
// takes reads only until pg_promote() has ended that.
func (p *Private) Standby(t testing.TB) *Private {
	t.Helper()
	if p.Engine != "PostgreSQL" {
		t.Fatalf("testserver: a standby of %s", p.Engine)
	}
	p.Stop(t)
	folder, err := temporaryFolder("sqlfence-postgres-", unprivileged("postgres"))
	if err == nil {
		err = copyCluster(p.folder, folder, p.DSN)
	}
	if err != nil {
		t.Fatalf("testserver: a standby: %v", errors.Join(err, os.RemoveAll(folder)))
	}
	p.Start(t)
	return startPrivate(t, folder, nil, p.run)
}

// copyCluster copies the data of a server that is stopped, and has the copy follow it.
func copyCluster(from, to, dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	data := filepath.Join(to, "data")
	if out, err := exec.Command("cp", "-pR", filepath.Join(from, "data"), data).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	settings, err := os.OpenFile(filepath.Join(data, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(settings, "primary_conninfo = 'host=%s port=%s user=%s'\n", u.Hostname(), u.Port(), u.User.Username())
	if err := errors.Join(err, settings.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o644)
}
