package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Sentinel watches over a Redis and its replica, and promotes the replica when the
// master has gone. All three belong to one test and end with it.
type Sentinel struct {
	Addr            string // "host:port" of the sentinel
	MasterName      string // what the sentinel calls the pair
	Master, Replica *Private
}

// sentinelSettings: a master that has not answered for a second is down, says the one
// sentinel that there is.
const sentinelSettings = `port %d
bind 127.0.0.1
dir %s
daemonize no
loglevel warning
sentinel monitor pair 127.0.0.1 %s 1
sentinel down-after-milliseconds pair 1000
sentinel failover-timeout pair 60000
`

// RedisSentinel starts a master, a replica that has caught up, and a sentinel that
// knows both. Settings are those of the two servers.
func RedisSentinel(t testing.TB, settings ...string) *Sentinel {
	t.Helper()
	s := &Sentinel{MasterName: "pair", Master: PrivateRedis(t, settings...), Replica: PrivateRedis(t, settings...)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.replicate(ctx); err != nil {
		t.Fatalf("testserver: a replica of Redis: %v", err)
	}
	instance, err := s.watch(ctx)
	if err != nil {
		t.Fatalf("testserver: a sentinel of Redis: %v", err)
	}
	t.Cleanup(func() {
		if err := instance.Stop(); err != nil {
			t.Errorf("testserver: a sentinel of Redis: %v", err)
		}
	})
	return s
}

// replicate makes one server follow the other, and waits until it does.
func (s *Sentinel) replicate(ctx context.Context) error {
	master, err := url.Parse(s.Master.DSN)
	if err != nil {
		return err
	}
	conn, err := dialRedis(ctx, s.Replica.DSN)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, _, err := conn.ask("REPLICAOF", master.Hostname(), master.Port()); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		info, _, err := conn.ask("INFO", "replication")
		return strings.Contains(info, "master_link_status:up"), err
	})
}

// CutReplica ends the replication for good, without either server's end: what the
// master acknowledges from now on, the replica never hears of. It returns when what
// was acknowledged before has arrived.
func (s *Sentinel) CutReplica(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.cutReplica(ctx); err != nil {
		t.Fatalf("testserver: cutting a replica of Redis off: %v", err)
	}
}

func (s *Sentinel) cutReplica(ctx context.Context) error {
	offset := func(dsn string) (string, error) {
		conn, err := dialRedis(ctx, dsn)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		info, _, err := conn.ask("INFO", "replication")
		_, rest, _ := strings.Cut(info, "\r\nmaster_repl_offset:")
		number, _, _ := strings.Cut(rest, "\r\n")
		return number, err
	}
	sent, err := offset(s.Master.DSN)
	if err != nil {
		return err
	}
	if err := until(ctx, func() (bool, error) {
		arrived, err := offset(s.Replica.DSN)
		return len(arrived) > len(sent) || len(arrived) == len(sent) && arrived >= sent, err
	}); err != nil {
		return err
	}
	conn, err := dialRedis(ctx, s.Replica.DSN)
	if err != nil {
		return err
	}
	defer conn.Close()
	// A master without passwords refuses whoever presents one.
	for _, command := range [][]string{{"CONFIG", "SET", "masterauth", "wrong"}, {"CLIENT", "KILL", "TYPE", "master"}} {
		if _, _, err := conn.ask(command...); err != nil {
			return err
		}
	}
	return until(ctx, func() (bool, error) {
		info, _, err := conn.ask("INFO", "replication")
		return strings.Contains(info, "master_link_status:down"), err
	})
}

// watch runs the sentinel, and waits until it knows the replica.
func (s *Sentinel) watch(ctx context.Context) (*Instance, error) {
	server, err := installedRedis()
	if err != nil {
		return nil, err
	}
	master, err := url.Parse(s.Master.DSN)
	if err != nil {
		return nil, err
	}
	as := unprivileged("redis")
	folder, err := temporaryFolder("sqlfence-sentinel-", as)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	// A sentinel writes what it finds out to its file.
	file := filepath.Join(folder, "sentinel.conf")
	err = os.WriteFile(file, fmt.Appendf(nil, sentinelSettings, port, folder, master.Port()), 0o666)
	if err == nil {
		err = os.Chmod(file, 0o666) // the umask does not matter
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	instance, err := program{
		args:   []string{server, file, "--sentinel"},
		stop:   `kill -KILL "$pid"`,
		folder: folder,
		user:   as,
	}.start()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	s.Addr = fmt.Sprintf("127.0.0.1:%d", port)
	err = instance.waitReady(ctx, func(ctx context.Context) error {
		conn, err := dialRedis(ctx, "redis://"+s.Addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		info, _, err := conn.ask("INFO", "sentinel")
		if err == nil && !strings.Contains(info, "status=ok") || !strings.Contains(info, "slaves=1") {
			err = fmt.Errorf("the sentinel sees no pair: %s", info)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, instance.Stop())
	}
	return instance, nil
}

// until asks until the answer is yes.
func until(ctx context.Context, ask func() (bool, error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := ask()
		if yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
