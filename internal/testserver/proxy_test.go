package testserver

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// echo listens and sends everything back.
func echo(t *testing.T) string {
	t.Helper()
	accept, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := accept.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // ends when the proxy goes
			})
		}
	})
	t.Cleanup(func() {
		accept.Close()
		work.Wait()
	})
	return accept.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends four bytes and returns how reading the answer ended.
func ask(conn net.Conn) error {
	if _, err := conn.Write([]byte("ping")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 4))
	return err
}

func TestProxyForwardsAndCounts(t *testing.T) {
	p := NewProxy(t, echo(t))
	for range 2 {
		conn := dial(t, p)
		for range 3 {
			if err := ask(conn); err != nil {
				t.Fatal(err)
			}
		}
	}
	if p.Connections() != 2 || p.Sent() != 24 || p.Received() != 24 {
		t.Errorf("counted %d connections, %d bytes sent, %d received; expected 2, 24, 24", p.Connections(), p.Sent(), p.Received())
	}
}

func TestProxyCutBreaksOpenConnectionsAndRefusesNewOnesUntilRestore(t *testing.T) {
	p := NewProxy(t, echo(t))
	open := dial(t, p)
	if err := ask(open); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if err := ask(open); err == nil {
		t.Error("an open connection works after Cut")
	}
	if err := ask(dial(t, p)); err == nil {
		t.Error("a new connection works after Cut")
	}
	p.Restore()
	if err := ask(open); err == nil {
		t.Error("a connection that was cut works after Restore")
	}
	if err := ask(dial(t, p)); err != nil {
		t.Errorf("a new connection after Restore: %v", err)
	}
}

func TestProxyDelayHoldsBackAnswersOnly(t *testing.T) {
	p := NewProxy(t, echo(t))
	conn := dial(t, p)
	const delay = 50 * time.Millisecond
	p.Delay(delay)
	began := time.Now()
	if err := ask(conn); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < delay {
		t.Errorf("the answer took %v, expected at least %v", took, delay)
	}
	p.Delay(0)
	if err := ask(conn); err != nil {
		t.Fatal(err)
	}
}

func TestProxyCutDoesNotWaitForADelay(t *testing.T) {
	p := NewProxy(t, echo(t))
	conn := dial(t, p)
	if err := ask(conn); err != nil {
		t.Fatal(err)
	}
	p.Delay(time.Hour)
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "answer held back by the proxy", func() bool { return p.Received() == 8 })
	p.Cut()
	if err := ask(conn); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading after Cut: %v, expected that the connection is broken", err)
	}
}

func TestProxyBeforeAServer(t *testing.T) {
	EachPostgreSQL(t, func(t *testing.T, dsn string) {
		p, through := NewProxyDSN(t, dsn)
		conn := connect(t, through)
		if err := conn.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.Cut()
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("the connection works after Cut")
		}
		if err := conn.Close(t.Context()); err != nil && !conn.IsClosed() {
			t.Error(err)
		}
	})
}

func TestProxyHoldsBackWhatIsSentNextAndNothingElse(t *testing.T) {
	p := NewProxy(t, echo(t))
	held, other := dial(t, p), dial(t, p)
	if err := errors.Join(ask(held), ask(other)); err != nil {
		t.Fatal(err)
	}
	caught, pass := p.HoldNext()
	answer := make(chan error, 1)
	go func() { answer <- ask(held) }()
	<-caught
	before := p.Received()
	if err := ask(other); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-answer:
		t.Fatalf("answered, %v, before it was let go", err)
	default:
	}
	pass()
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if err := ask(held); err != nil {
		t.Errorf("after it was let go: %v", err)
	}
	if n := p.Received() - before; n != 12 {
		t.Errorf("the server has answered %d bytes, expected 12", n)
	}
}

func TestProxyPassesOnWhatItHeldBackForAClientThatHasGone(t *testing.T) {
	for name, cut := range map[string]bool{"let go": false, "cut": true} {
		t.Run(name, func(t *testing.T) {
			p := NewProxy(t, echo(t))
			conn := dial(t, p)
			caught, pass := p.HoldNext()
			if _, err := conn.Write([]byte("ping")); err != nil {
				t.Fatal(err)
			}
			<-caught
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			want := int64(4)
			if cut {
				p.Cut()
				want = 0
			}
			pass()
			if n := p.Received(); n != want {
				t.Errorf("the server has answered %d bytes, expected %d", n, want)
			}
		})
	}
}
