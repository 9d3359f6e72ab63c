package testserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// EnvRedis names the Redis servers to test against: redis:// URLs, separated by
// commas. Each test takes one of their numbered databases and empties it.
const EnvRedis = "SQLFENCE_TEST_REDIS"

// oldestRedis is the oldest major that is supported.
const oldestRedis = 7

// redisSettings make a throwaway server: no persistence, and room for every test.
var redisSettings = []string{"bind=127.0.0.1", "save=", "appendonly=no", "databases=1024", "loglevel=warning"}

// redis finds the servers of this process once.
var redis = sync.OnceValues(func() ([]Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if list := os.Getenv(EnvRedis); list != "" {
		return namedRedis(ctx, list)
	}
	instance, err := startAnyRedis(ctx)
	if err != nil {
		return nil, err
	}
	keep(instance)
	return []Server{instance.Server}, nil
})

// Redis returns every Redis server of this run, at least one. The test fails if
// there is none.
func Redis(t testing.TB) []Server {
	t.Helper()
	servers, err := redis()
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	return servers
}

// EachRedis runs fn as a subtest per Redis server, named after its version, with
// the URL of an empty numbered database that no other test uses meanwhile.
// Channels and scripts are the whole server's; the server keeps nothing on disk.
func EachRedis(t *testing.T, fn func(t *testing.T, dsn string)) {
	t.Helper()
	for _, server := range Redis(t) {
		t.Run("Redis_"+server.Version, func(t *testing.T) {
			fn(t, server.Database(t))
		})
	}
}

// claimRedis finds a numbered database that no other test uses. Number 0 holds who
// has which; a claim of a test that was killed ends with the hour.
func (s Server) claimRedis(ctx context.Context, name string) (dsn string, err error) {
	conn, err := dialRedis(ctx, s.DSN)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, count, err := conn.ask("CONFIG", "GET", "databases")
	if err != nil {
		return "", err
	}
	databases, err := strconv.Atoi(count)
	if err != nil {
		return "", fmt.Errorf("the number of databases is %q", count)
	}
	for i := 1; i < databases; i++ {
		number := strconv.Itoa(i)
		_, taken, err := conn.ask("SET", redisClaim(number), name, "NX", "EX", "3600")
		if err != nil {
			return "", err
		}
		if taken != "OK" {
			continue
		}
		if err := conn.flush(number); err != nil {
			return "", err
		}
		u, err := url.Parse(s.DSN)
		if err != nil {
			return "", err
		}
		u.Path = "/" + number
		return u.String(), nil
	}
	return "", fmt.Errorf("all %d databases are in use", databases)
}

func (s Server) giveBackRedis(ctx context.Context, _, dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	number := strings.TrimPrefix(u.Path, "/")
	conn, err := dialRedis(ctx, s.DSN)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.flush(number); err != nil {
		return err
	}
	_, _, err = conn.ask("DEL", redisClaim(number))
	return err
}

func redisClaim(number string) string { return "sqlfence-test:database:" + number }

// redisConn speaks as much of Redis's protocol as handing out databases needs.
type redisConn struct {
	net.Conn
	in *bufio.Reader
}

func dialRedis(ctx context.Context, dsn string) (*redisConn, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "redis" || u.Host == "" {
		return nil, fmt.Errorf("%q is no redis:// URL", dsn)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	c := &redisConn{Conn: conn, in: bufio.NewReader(conn)}
	if password, ok := u.User.Password(); ok {
		auth := []string{"AUTH", password}
		if name := u.User.Username(); name != "" {
			auth = []string{"AUTH", name, password}
		}
		if _, _, err := c.ask(auth...); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return c, nil
}

// flush empties a database and returns to number 0.
func (c *redisConn) flush(number string) error {
	for _, command := range [][]string{{"SELECT", number}, {"FLUSHDB"}, {"SELECT", "0"}} {
		if _, _, err := c.ask(command...); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a command and returns its answer: a text, or the first two texts of a
// list; nil reads as the empty text.
func (c *redisConn) ask(command ...string) (first, second string, err error) {
	var out strings.Builder
	fmt.Fprintf(&out, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := c.Write([]byte(out.String())); err != nil {
		return "", "", err
	}
	texts, err := c.answer()
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", command[0], err)
	}
	switch len(texts) {
	case 0:
		return "", "", nil
	case 1:
		return texts[0], texts[0], nil
	}
	return texts[0], texts[1], nil
}

func (c *redisConn) answer() ([]string, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return []string{rest}, nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || kind != '$' && kind != '*' {
		return nil, fmt.Errorf("unexpected answer %q", line)
	}
	if n < 0 {
		return []string{""}, nil
	}
	if kind == '$' {
		text := make([]byte, n+2)
		for read := 0; read < len(text); {
			more, err := c.in.Read(text[read:])
			if err != nil {
				return nil, err
			}
			read += more
		}
		return []string{string(text[:n])}, nil
	}
	var all []string
	for range n {
		texts, err := c.answer()
		if err != nil {
			return nil, err
		}
		all = append(all, texts...)
	}
	return all, nil
}

// redisVersion connects and asks; a server that still loads its data does not answer.
func redisVersion(ctx context.Context, dsn string) (string, error) {
	conn, err := dialRedis(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// A node of a cluster without slots answers, as far as it can.
	if _, _, err := conn.ask("GET", "sqlfence-test"); err != nil && !strings.Contains(err.Error(), "CLUSTERDOWN") {
		return "", err
	}
	info, _, err := conn.ask("INFO", "server")
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(rest, "\r\n")
	if !ok || (Server{Version: version}).Major() < oldestRedis {
		return "", fmt.Errorf("version is %q, expected %d or newer", version, oldestRedis)
	}
	return version, nil
}

// namedRedis asks the listed servers for their versions.
func namedRedis(ctx context.Context, list string) ([]Server, error) {
	var servers []Server
	for _, dsn := range strings.Split(list, ",") {
		dsn = strings.TrimSpace(dsn)
		if dsn == "" {
			continue
		}
		version, err := redisVersion(ctx, dsn)
		if err != nil {
			return nil, fmt.Errorf("%s names a server that does not answer: %w", EnvRedis, err)
		}
		servers = append(servers, Server{Engine: "Redis", Version: version, DSN: dsn})
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s is set and names no server", EnvRedis)
	}
	return servers, nil
}

// startAnyRedis starts the first Redis that can be had.
func startAnyRedis(ctx context.Context) (*Instance, error) {
	return startFirst(ctx, []source{
		{"program on this machine", startInstalledRedis},
		{"container", container{
			image:  "redis:7",
			port:   6379,
			args:   []string{"redis-server", "--save", "", "--databases", "1024"},
			answer: (*Instance).answerRedis,
		}.start},
		{"Debian package", func(ctx context.Context) (*Instance, error) {
			if err := installDebian(ctx, []string{"apt-get", "install", "--yes", "--no-install-recommends", "redis-server"}); err != nil {
				return nil, err
			}
			instance, err := startInstalledRedis(ctx)
			return debianInstance(instance, err)
		}},
	}, fmt.Sprintf("no server for Redis (%d or newer).\n"+
		"Install one of these and run again: Redis with its server program (Debian, Ubuntu: apt-get install redis-server; "+
		"macOS: brew install redis); or a running Docker or Podman.\n"+
		"Or name servers of yours: %s=redis://127.0.0.1:6379[,…]", oldestRedis, EnvRedis))
}

func startInstalledRedis(ctx context.Context) (*Instance, error) {
	server, err := installedRedis()
	if err != nil {
		return nil, err
	}
	folder, err := temporaryFolder("sqlfence-redis-", unprivileged("redis"))
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	instance, err := runRedis(ctx, server, folder, port, nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return instance, nil
}

// installedRedis returns the path of a server program that is new enough.
func installedRedis() (string, error) {
	for _, folder := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin") {
		server := filepath.Join(folder, "redis-server")
		out, err := exec.Command(server, "--version").Output()
		if err != nil {
			continue
		}
		_, version, ok := strings.Cut(string(out), " v=")
		if ok && (Server{Version: version}).Major() >= oldestRedis {
			return server, nil
		}
	}
	return "", errors.New("none found on the PATH or in the usual places")
}

// runRedis runs a server on the folder; more are settings ("name=value") that override ours.
func runRedis(ctx context.Context, server, folder string, port int, more []string) (*Instance, error) {
	args := []string{server, "--port", strconv.Itoa(port), "--dir", folder, "--daemonize", "no"}
	for _, setting := range slices.Concat(redisSettings, more) {
		name, value, _ := strings.Cut(setting, "=")
		args = append(args, "--"+name, value)
	}
	instance, err := program{
		args:   args,
		stop:   `case $how in stop) kill -TERM "$pid" ;; *) kill -KILL "$pid" ;; esac`,
		folder: folder,
		user:   unprivileged("redis"),
	}.start()
	if err == nil {
		instance.Origin = "program on this machine, " + server
		err = instance.answerRedis(ctx, port)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", server, err)
	}
	return instance, nil
}

// answerRedis waits until the server takes commands, and fills in what is known of
// it then. It stops a server that does not answer.
func (i *Instance) answerRedis(ctx context.Context, port int) error {
	i.Engine = "Redis"
	i.DSN = fmt.Sprintf("redis://127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := i.waitReady(ctx, func(ctx context.Context) (err error) {
		i.Version, err = redisVersion(ctx, i.DSN)
		return err
	})
	if err != nil {
		return errors.Join(err, i.Stop())
	}
	return nil
}
