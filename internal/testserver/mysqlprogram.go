package testserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// EnvMySQLPrograms names the server programs of MariaDB and MySQL to test with, where
// they are not to be looked for: paths of a mariadbd or a mysqld, or of a script that
// ends with exec of one, separated by commas. Each is started on data of its own.
const EnvMySQLPrograms = "SQLFENCE_TEST_MYSQLD"

// namedMySQLPrograms returns what EnvMySQLPrograms names, nothing where it is not set.
func namedMySQLPrograms() ([]mySQLInstallation, error) {
	list := os.Getenv(EnvMySQLPrograms)
	if list == "" {
		return nil, nil
	}
	var named []mySQLInstallation
	for _, path := range strings.Split(list, ",") {
		path = strings.TrimSpace(path)
		if path == "" {
			continue
		}
		in, err := inspectMySQL(path)
		if err == nil && !filepath.IsAbs(path) {
			err = errors.New("the path is not absolute")
		}
		if err == nil && !in.supported() {
			err = fmt.Errorf("%s %s is not supported", in.engine, in.version)
		}
		if err != nil {
			return nil, fmt.Errorf("%s names %s, which is no server program of MariaDB or MySQL to test with: %w", EnvMySQLPrograms, path, err)
		}
		in.named, in.origin = true, "program named by "+EnvMySQLPrograms+", "+path
		named = append(named, in)
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("%s is set and names no program", EnvMySQLPrograms)
	}
	return named, nil
}

// bootstrap returns the command that makes the system tables of a MariaDB from the
// scripts that came with the program. (A mariadb-install-db beside it may be that of
// another version.)
func (in mySQLInstallation) bootstrap(ctx context.Context, data string, as *user) (*exec.Cmd, error) {
	help := exec.CommandContext(ctx, in.server, "--no-defaults", "--verbose", "--help")
	detach(help, as)
	printed, err := help.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", help, err)
	}
	share, err := sharedFolder(printed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.server, err)
	}
	// Root without a password, and no plugin that asks the operating system instead.
	script := []io.Reader{strings.NewReader("CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n")}
	for _, pattern := range []string{
		"m*_system_tables.sql", "m*_performance_tables.sql", "m*_system_tables_data.sql", "maria_add_gis_sp_bootstrap.sql", "m*_sys_schema.sql",
	} {
		found, err := filepath.Glob(filepath.Join(share, pattern))
		if err == nil && len(found) == 0 {
			err = errors.New("it is not there")
		}
		if err != nil {
			return nil, fmt.Errorf("%s in the folder of %s: %w", pattern, in.server, err)
		}
		text, err := os.ReadFile(found[0])
		if err != nil {
			return nil, err
		}
		script = append(script, bytes.NewReader(text), strings.NewReader("\n"))
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(data, as.uid, as.gid); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, in.server, "--no-defaults", "--bootstrap", "--datadir="+data, "--skip-name-resolve")
	cmd.Stdin = io.MultiReader(script...)
	return cmd, nil
}

// sharedFolder finds the folder of a server's scripts in what it prints about itself:
// that of the character sets lies in it.
func sharedFolder(help []byte) (string, error) {
	for lines := bufio.NewScanner(bytes.NewReader(help)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "character-sets-dir "); ok {
			return filepath.Dir(filepath.Clean(strings.TrimSpace(value))), nil
		}
	}
	return "", errors.New("it does not tell its character-sets-dir")
}
