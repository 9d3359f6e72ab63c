package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/lease"
	leaseredis "github.com/sqlfence/sqlfence/lease/redis"
)

// counter counts round trips: single commands and pipelines.
type counter struct{ trips atomic.Int64 }

func (c *counter) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (c *counter) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		c.trips.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		c.trips.Add(1)
		return next(ctx, cmds)
	}
}

func TestEachOperationIsOneRoundTrip(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		client := open(t, url)
		s := leaseredis.New(client)
		mustAcquire(t, s, request("warm", "a")) // the server knows the scripts from then on, but for these
		if err := s.Release(t.Context(), claim(mustAcquire(t, s, request("warm", "a")), "a"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Renew(t.Context(), []lease.Claim{claim(mustAcquire(t, s, request("warm", "a")), "a")}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Inspect(t.Context(), "warm"); err != nil {
			t.Fatal(err)
		}
		many := make([]lease.Claim, 2500)
		warm := claim(mustAcquire(t, s, request("warm", "a")), "a")
		for i := range many {
			many[i] = warm
		}
		if _, err := s.Renew(t.Context(), many); err != nil { // pipelines have connections of their own
			t.Fatal(err)
		}

		count := &counter{}
		client.AddHook(count)
		expect := func(what string, want int64) {
			t.Helper()
			if n := count.trips.Swap(0); n != want {
				t.Errorf("%s: %d round trips, expected %d", what, n, want)
			}
		}
		g := mustAcquire(t, s, request("job", "a"))
		expect("acquire", 1)
		if _, err := s.Acquire(t.Context(), request("job", "b")); !errors.Is(err, lease.ErrNotAcquirable) {
			t.Error(err)
		}
		expect("denied acquire", 1)
		if _, err := s.Renew(t.Context(), []lease.Claim{claim(g, "a")}); err != nil {
			t.Error(err)
		}
		expect("renew", 1)
		if _, err := s.Inspect(t.Context(), "job"); err != nil {
			t.Error(err)
		}
		expect("inspect", 1)
		claims := make([]lease.Claim, 2500)
		for i := range claims {
			claims[i] = claim(g, "a")
		}
		renewed, err := s.Renew(t.Context(), claims)
		if err != nil || len(renewed) != len(claims) || renewed[2499].Err != nil {
			t.Errorf("renewing 2500: %v", err)
		}
		expect("renew of 2500", 1)
		if err := s.Release(t.Context(), claim(g, "a"), 0); err != nil {
			t.Error(err)
		}
		expect("release", 1)
	})
}

func TestADeniedAcquireWritesNothing(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		client := open(t, url)
		s := leaseredis.New(client)
		mustAcquire(t, s, request("job", "a"))
		dump := func() string {
			t.Helper()
			d, err := client.Dump(t.Context(), s.Key("job")).Result()
			if err != nil {
				t.Fatal(err)
			}
			keys, err := client.DBSize(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%x, %d keys", d, keys)
		}
		before := dump()
		if _, err := s.Acquire(t.Context(), request("job", "b")); !errors.Is(err, lease.ErrNotAcquirable) {
			t.Fatal(err)
		}
		if after := dump(); after != before {
			t.Errorf("expected %s, saw %s", before, after)
		}
	})
}

func TestForgottenScriptsAreSentAgain(t *testing.T) { // CASES D35
	testserver.EachRedis(t, func(t *testing.T, url string) {
		client := open(t, url)
		s := leaseredis.New(client)
		flush := func() {
			t.Helper()
			if err := client.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		flush()
		g := mustAcquire(t, s, request("job", "a"))
		flush()
		if _, err := s.Renew(t.Context(), []lease.Claim{claim(g, "a")}); err != nil {
			t.Errorf("renew: %v", err)
		}
		flush()
		claims := make([]lease.Claim, 1500) // two scripts in one pipeline
		for i := range claims {
			claims[i] = claim(g, "a")
		}
		renewed, err := s.Renew(t.Context(), claims)
		if err != nil || renewed[0].Err != nil || renewed[1499].Err != nil {
			t.Errorf("renew of many: %v, %v, %v", err, renewed[0].Err, renewed[1499].Err)
		}
		flush()
		if state, err := s.Inspect(t.Context(), "job"); err != nil || state.Status != lease.Held {
			t.Errorf("inspect: %+v, %v", state, err)
		}
		flush()
		script := s.Script(`return redis.call('SET', KEYS[1], ARGV[1])`)
		if _, err := script.Run(t.Context(), g.Token, []string{"data"}, "x"); err != nil {
			t.Errorf("guarded script: %v", err)
		}
		flush()
		if err := s.Release(t.Context(), claim(g, "a"), 0); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

// slot is the slot of a key as Redis Cluster's specification has it.
func slot(key string) uint16 {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if n := strings.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	var crc uint16
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}

var oddNames = []string{
	"a", "{a}b", "a{}b", "}x{", "{", "}", "{}", "{{}}", "%7B", "{", "é日😀", "with: colon and space",
	strings.Repeat("x", 255),
}

func TestAllKeysOfAResourceAreInOneSlot(t *testing.T) { // CASES D36
	if slot("123456789") != 12739 { // of the specification
		t.Fatal("the test's slot function is wrong")
	}
	s := leaseredis.New(goredis.NewClient(&goredis.Options{}))
	keys := map[string]string{}
	for _, name := range oddNames {
		key := s.Key(name)
		for _, other := range []string{key + ":abandoned:-7", "data:" + s.Tag(name), s.Tag(name), s.Tag(name) + "{other}"} {
			if slot(other) != slot(key) {
				t.Errorf("%q: %q is in slot %d and %q in %d", name, key, slot(key), other, slot(other))
			}
		}
		if before, taken := keys[key]; taken && before != name {
			t.Errorf("%q and %q have one key, %q", before, name, key)
		}
		keys[key] = name
	}
	defer func() {
		if recover() == nil {
			t.Error("a prefix with a brace was accepted")
		}
	}()
	leaseredis.New(goredis.NewClient(&goredis.Options{}), leaseredis.Prefix("a{b}"))
}

// A Cluster refuses scripts whose keys are in several slots, and leases that are
// renewed together are on several nodes.
func TestConformanceOnACluster(t *testing.T) {
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: testserver.RedisCluster(t, 3)})
	defer client.Close()
	conform(t, client)

	s := leaseredis.New(client)
	for _, name := range oddNames {
		g := mustAcquire(t, s, request(name, "a"))
		script := s.Script(`return redis.call('SET', KEYS[1], ARGV[1])`)
		if _, err := script.Run(t.Context(), g.Token, []string{"data" + s.Tag(name)}, "x"); err != nil {
			t.Errorf("guarded script of %q: %v", name, err)
		}
	}
}

func TestAGuardedScriptRunsUnderAValidTokenOnly(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		client := open(t, url)
		s := leaseredis.New(client)
		script := s.Script("#!lua\n" + `redis.call('SET', KEYS[1], ARGV[1])
return {#KEYS, #ARGV, KEYS[1], ARGV[2], tostring(rawget(_G, 'sqlfence')), KEYS[2] or ARGV[3] or ARGV[4] or 'hidden'} -- and no newline at the end`)
		old := mustAcquire(t, s, request("job", "a"))
		result, err := script.Run(t.Context(), old.Token, []string{"data"}, "A", 7)
		if fmt.Sprint(result) != "[1 2 data 7 nil hidden]" || err != nil {
			t.Errorf("the holder's: %v, %v", result, err)
		}
		lapse(t, client, s, "job")
		current := mustAcquire(t, s, request("job", "b"))
		if _, err := script.Run(t.Context(), current.Token, []string{"data"}, "B", 7); err != nil {
			t.Errorf("the new holder's: %v", err)
		}

		var fenced *guard.FencedError
		if _, err := script.Run(t.Context(), old.Token, []string{"data"}, "stale", 7); !errors.As(err, &fenced) || fenced.HighWater != current.Token.Epoch || !errors.Is(err, lease.ErrLost) {
			t.Errorf("the former holder's: %v", err)
		}
		confused := current.Token
		confused.Grant++
		if _, err := script.Run(t.Context(), confused, []string{"data"}, "stale", 7); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("another grant's: %v", err)
		}
		for _, unknown := range []guard.Token{
			{Resource: "job", Epoch: current.Token.Epoch + 1, Grant: 1}, {Resource: "other", Epoch: 1},
		} {
			if _, err := script.Run(t.Context(), unknown, []string{"data"}, "stale", 7); !errors.Is(err, guard.ErrUnregistered) {
				t.Errorf("of %v: %v", unknown, err)
			}
		}
		if _, err := script.Run(t.Context(), guard.Token{}, []string{"data"}, "stale", 7); !errors.Is(err, guard.ErrInvalidInput) {
			t.Errorf("of no token: %v", err)
		}
		if v := client.Get(t.Context(), "data").Val(); v != "B" {
			t.Errorf("the data is %q, expected what the holder wrote", v)
		}
		if err := s.Check(t.Context(), current.Token); err != nil {
			t.Errorf("check of the holder's: %v", err)
		}
		if err := s.Check(t.Context(), old.Token); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("check of the former holder's: %v", err)
		}

		// Errors of the text itself, with its own line, are the server's.
		broken := s.Script("local x = 1\nreturn redis.call('INCR', KEYS[1])")
		var answer goredis.Error
		if _, err := broken.Run(t.Context(), current.Token, []string{"data"}); !errors.As(err, &answer) || errors.Is(err, guard.ErrFenced) || !strings.Contains(err.Error(), ":2:") && !strings.Contains(err.Error(), "not an integer") {
			t.Errorf("a broken script: %v", err)
		}
		// Release and flush take the right to write.
		if err := s.Release(t.Context(), claim(current, "b"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := script.Run(t.Context(), current.Token, []string{"data"}, "stale", 7); !errors.Is(err, guard.ErrFenced) {
			t.Errorf("after the release: %v", err)
		}
		if err := client.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := script.Run(t.Context(), current.Token, []string{"data"}, "stale", 7); !errors.Is(err, guard.ErrUnregistered) {
			t.Errorf("after the mark was lost: %v", err)
		}
	})
}

// Lua bounds the local variables of a function to 200, and to 60 those that a function
// within it may use: a text may spend them all.
func TestAGuardedScriptMaySpendWhatLuaAllows(t *testing.T) {
	var locals, captured strings.Builder
	for i := range 200 {
		fmt.Fprintf(&locals, "local v%d = %d\n", i, i)
	}
	for i := range 60 {
		fmt.Fprintf(&captured, "local u%d = %d\n", i, i)
	}
	captured.WriteString("local f = function() return KEYS[1] .. #ARGV .. (u0")
	for i := range 59 {
		fmt.Fprintf(&captured, "+u%d", i+1)
	}
	captured.WriteString(") end\nreturn f()")
	texts := map[string]string{
		"200 locals":              locals.String() + "return KEYS[1] .. #ARGV .. v199",
		"60 captured by function": captured.String(),
	}
	testserver.EachRedis(t, func(t *testing.T, url string) {
		client := open(t, url)
		s := leaseredis.New(client)
		held := mustAcquire(t, s, request("job", "a"))
		for name, text := range texts {
			want, err := client.Eval(t.Context(), text, []string{"data"}, 1).Result()
			if err != nil {
				t.Fatalf("%s, without the fence: %v", name, err)
			}
			if got, err := s.Script(text).Run(t.Context(), held.Token, []string{"data"}, 1); err != nil || got != want {
				t.Errorf("%s: %v, %v; want %v", name, got, err, want)
			}
		}
	})
}

// through returns a client that goes through a proxy.
func through(t *testing.T, url string, retries int) (*testserver.Proxy, *leaseredis.Store) {
	t.Helper()
	proxy, dsn := testserver.NewProxyDSN(t, url)
	opts, err := goredis.ParseURL(dsn)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = retries
	client := goredis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	s := leaseredis.New(client)
	// There is a connection, and the scripts are known.
	if err := s.Release(t.Context(), claim(mustAcquire(t, s, request("warm", "a")), "a"), 0); err != nil {
		t.Fatal(err)
	}
	return proxy, s
}

// untilHeld waits until the server has granted the resource.
func untilHeld(t *testing.T, s lease.Store, resource string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if state, err := s.Inspect(context.Background(), resource); err != nil {
			t.Fatal(err)
		} else if state.Status == lease.Held {
			return
		}
	}
	t.Fatal("the request did not arrive")
}

// The error is that of the last attempt, which says nothing of the first.
func TestAnAcquireThatIsSentAgainInVainIsWithdrawn(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		direct := leaseredis.New(open(t, url))
		var refuse atomic.Int64
		proxy, behind := testserver.NewProxyDSN(t, url)
		refusing := func(o *goredis.Options) {
			o.MaxRetries, o.DialerRetries, o.ReadTimeout = 1, 1, -1
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if refuse.Add(-1) >= 0 {
					return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}
		}
		s := leaseredis.New(open(t, behind, refusing))
		// There is a connection, and the scripts are known.
		if err := s.Release(t.Context(), claim(mustAcquire(t, s, request("warm", "a")), "a"), 0); err != nil {
			t.Fatal(err)
		}
		proxy.Delay(time.Hour)
		done := make(chan error)
		go func() {
			_, err := s.Acquire(context.WithoutCancel(t.Context()), request("r", "a"))
			done <- err
		}()
		untilHeld(t, direct, "r")
		refuse.Store(3) // more than are tried
		proxy.Delay(0)
		proxy.Cut()
		proxy.Restore()
		if err := <-done; !errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "withdrawn") {
			t.Errorf("the acquire whose answer was lost: %v", err)
		}
		if state, err := direct.Inspect(t.Context(), "r"); err != nil || state.Status != lease.Free {
			t.Errorf("afterwards: %+v, %v; want it free", state, err)
		}
		// The control: what was never sent is told at once, and is nothing to withdraw.
		refuse.Store(1000)
		none := leaseredis.New(open(t, url, refusing))
		if _, err := none.Acquire(t.Context(), request("r", "a")); !errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "withdrawn") {
			t.Errorf("the acquire that reaches no server: %v", err)
		}
	})
}

func TestALostAnswerIsNeverGuessed(t *testing.T) {
	testserver.EachRedis(t, func(t *testing.T, url string) {
		direct := leaseredis.New(open(t, url))
		t.Run("a client that sends again gets the grant it was given", func(t *testing.T) {
			proxy, s := through(t, url, 3)
			proxy.Delay(time.Hour)
			done := make(chan lease.Granted)
			go func() {
				g, err := s.Acquire(context.WithoutCancel(t.Context()), request("again", "a"))
				if err != nil {
					t.Error(err)
				}
				done <- g
			}()
			untilHeld(t, direct, "again")
			proxy.Delay(0)
			proxy.Cut()
			proxy.Restore()
			g := <-done
			if g.Token.Epoch != 1 {
				t.Errorf("epoch %d, expected the one that was granted first, 1", g.Token.Epoch)
			}

			proxy.Delay(time.Hour)
			released := make(chan error)
			go func() { released <- s.Release(context.WithoutCancel(t.Context()), claim(g, "a"), 0) }()
			for deadline := time.Now().Add(20 * time.Second); ; {
				if state, err := direct.Inspect(t.Context(), "again"); err != nil || time.Now().After(deadline) {
					t.Fatal("the release did not arrive", err)
				} else if state.Status == lease.Free {
					break
				}
			}
			proxy.Delay(0)
			proxy.Cut()
			proxy.Restore()
			if err := <-released; err != nil {
				t.Errorf("release that was sent again: %v", err)
			}
		})
		t.Run("a release that is sent again when somebody else holds the resource", func(t *testing.T) {
			proxy, s := through(t, url, 3)
			g := mustAcquire(t, s, request("next", "a"))
			proxy.Delay(time.Hour)
			released := make(chan error)
			go func() { released <- s.Release(context.WithoutCancel(t.Context()), claim(g, "a"), 0) }()
			for deadline := time.Now().Add(20 * time.Second); ; {
				if state, err := direct.Inspect(t.Context(), "next"); err != nil || time.Now().After(deadline) {
					t.Fatal("the release did not arrive", err)
				} else if state.Status == lease.Free {
					break
				}
			}
			other := mustAcquire(t, direct, request("next", "b"))
			proxy.Delay(0)
			proxy.Cut()
			proxy.Restore()
			if err := <-released; err != nil {
				t.Errorf("release that was sent again: %v", err)
			}
			// The control: another release of the same claim is refused, and does no harm.
			if err := s.Release(t.Context(), claim(g, "a"), 0); !errors.Is(err, lease.ErrNotOwner) {
				t.Errorf("a second release: %v", err)
			}
			if err := direct.Release(t.Context(), claim(other, "b"), 0); err != nil {
				t.Errorf("the release of who holds it: %v", err)
			}
		})
		t.Run("otherwise the grant is released", func(t *testing.T) {
			proxy, s := through(t, url, -1)
			proxy.Delay(time.Hour)
			done := make(chan error)
			go func() {
				_, err := s.Acquire(context.WithoutCancel(t.Context()), request("lost", "a"))
				done <- err
			}()
			untilHeld(t, direct, "lost")
			proxy.Delay(0)
			proxy.Cut()
			proxy.Restore()
			if err := <-done; err == nil || strings.Contains(err.Error(), "withdrawn") {
				t.Errorf("an acquire without an answer: %v", err)
			}
			if state, err := direct.Inspect(t.Context(), "lost"); err != nil || state.Status != lease.Free {
				t.Errorf("afterwards: %+v, %v; expected it free", state, err)
			}
		})
		t.Run("who gives up returns at once and gets nothing", func(t *testing.T) {
			proxy, s := through(t, url, -1)
			proxy.Delay(time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := s.Acquire(ctx, request("gone", "a"))
				done <- err
			}()
			untilHeld(t, direct, "gone")
			start := time.Now()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("expected the context's error, saw %v", err)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("it returned after %v", took)
			}
			proxy.Delay(0)
			proxy.Cut()
			proxy.Restore()
			for deadline := time.Now().Add(20 * time.Second); ; {
				if state, err := direct.Inspect(t.Context(), "gone"); err != nil || time.Now().After(deadline) {
					t.Fatalf("it is still held: %+v, %v", state, err)
				} else if state.Status == lease.Free {
					break
				}
			}
		})
		t.Run("without a server nothing was sent", func(t *testing.T) {
			client := goredis.NewClient(&goredis.Options{MaxRetries: -1, Dialer: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
			}})
			defer client.Close()
			if _, err := leaseredis.New(client).Acquire(t.Context(), request("r", "a")); err == nil || strings.Contains(err.Error(), "withdrawn") {
				t.Errorf("acquire: %v", err)
			}
		})
	})
}
