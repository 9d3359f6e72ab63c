package testserver

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// redisSlots is how many slots a Cluster has.
const redisSlots = 16384

// RedisCluster starts a Cluster of masters that share the slots, and returns the
// addresses of the nodes when each of them takes commands. It ends with the test.
func RedisCluster(t testing.TB, nodes int) (addrs []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var conns []*redisConn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	var first, firstBus string
	for i := range nodes {
		// The bus's port would be 10,000 above the other, and need not be one.
		bus, err := freePort()
		if err != nil {
			t.Fatalf("testserver: %v", err)
		}
		server := PrivateRedis(t, "cluster-enabled=yes", "cluster-port="+strconv.Itoa(bus), "databases=1")
		u, err := url.Parse(server.DSN)
		if err != nil {
			t.Fatalf("testserver: %v", err)
		}
		addrs = append(addrs, u.Host)
		conn, err := dialRedis(ctx, server.DSN)
		if err != nil {
			t.Fatalf("testserver: %v", err)
		}
		conns = append(conns, conn)
		from, to := i*redisSlots/nodes, (i+1)*redisSlots/nodes-1
		if _, _, err := conn.ask("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
			t.Fatalf("testserver: a node of a Cluster of Redis: %v", err)
		}
		// Nodes with one number of the configuration would have to settle who is
		// which first.
		if _, _, err := conn.ask("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			t.Fatalf("testserver: a node of a Cluster of Redis: %v", err)
		}
		if i == 0 {
			first, firstBus = u.Port(), strconv.Itoa(bus)
		} else if _, _, err := conn.ask("CLUSTER", "MEET", u.Hostname(), first, firstBus); err != nil {
			t.Fatalf("testserver: a node of a Cluster of Redis: %v", err)
		}
	}
	for i, conn := range conns {
		if err := until(ctx, func() (bool, error) {
			info, _, err := conn.ask("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d", nodes)), err
		}); err != nil {
			t.Fatalf("testserver: node %d of a Cluster of Redis: %v", i, err)
		}
	}
	return addrs
}
