package testserver

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between a client and a server and breaks the connection on
// command. Its methods are safe for concurrent use.
type Proxy struct {
	target string
	accept net.Listener

	mu    sync.Mutex
	cut   bool
	ended bool
	delay time.Duration
	next  *heldBack         // what HoldNext waits for
	conns map[net.Conn]bool // both ends of every open connection; true: the client's
	halt  chan struct{}     // closed when a delay must not be waited out any more

	work     sync.WaitGroup
	count    atomic.Int64
	sent     atomic.Int64
	received atomic.Int64
	turns    atomic.Int64
	answered atomic.Bool // the server was the last to send
}

// NewProxy listens on a free loopback port and forwards to target, "host:port".
// It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	accept, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testserver: proxy: %v", err)
	}
	p := &Proxy{target: target, accept: accept, conns: map[net.Conn]bool{}, halt: make(chan struct{})}
	p.work.Add(1)
	go p.serve()
	t.Cleanup(p.close)
	return p
}

// NewProxyDSN puts a proxy before the server that a URL names, and returns it with
// the URL that leads through it.
func NewProxyDSN(t testing.TB, dsn string) (*Proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("testserver: proxy: %v", err)
	}
	p := NewProxy(t, u.Host)
	u.Host = p.Addr()
	return p, u.String()
}

// Addr returns where the proxy listens, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.accept.Addr().String() }

// Cut breaks every open connection and refuses new ones until Restore. What is on
// its way is lost: bytes that the server has sent may not reach the client, bytes
// that the client has sent may or may not have reached the server.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.dropAll()
}

// HangUp breaks every open connection for the client alone: the server gets what the
// proxy holds back, and notices nothing before it answers.
func (p *Proxy) HangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, client := range p.conns {
		if client {
			conn.Close() // the error would be that the other end was first
		}
	}
}

// Restore lets new connections through again. Those that were cut stay so.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	if !p.ended {
		p.halt = make(chan struct{})
	}
}

// Delay holds back everything that the server sends by d from now on; 0 ends it.
// It delays what a client learns, not what the server does.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// heldBack is what a client has sent, and the proxy has kept so far.
type heldBack struct {
	caught   chan struct{} // closed when there is something
	pass     chan struct{} // closed when it may go on
	answered chan struct{} // closed when the server has answered it, or the connection has ended
}

// HoldNext holds back what a client sends next, on whichever connection, until pass
// is called: then it arrives, also if the client has closed its end meanwhile. caught
// is closed when there is something; pass returns when the server has answered it.
func (p *Proxy) HoldNext() (caught <-chan struct{}, pass func()) {
	h := &heldBack{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	p.mu.Lock()
	p.next = h
	p.mu.Unlock()
	return h.caught, func() {
		close(h.pass)
		<-h.answered
	}
}

// Connections returns how many connections clients have opened so far.
func (p *Proxy) Connections() int64 { return p.count.Load() }

// Turns returns how often a client has sent something after the server had: the
// round trips, where one client at a time is at work.
func (p *Proxy) Turns() int64 { return p.turns.Load() }

// Sent returns how many bytes clients have sent to the server so far.
func (p *Proxy) Sent() int64 { return p.sent.Load() }

// Received returns how many bytes the server has sent to clients so far.
func (p *Proxy) Received() int64 { return p.received.Load() }

// dropAll closes all connections and ends the delays; p.mu is held.
func (p *Proxy) dropAll() {
	select {
	case <-p.halt:
	default:
		close(p.halt)
	}
	for conn := range p.conns {
		conn.Close() // the error would be that the other end was first
	}
	clear(p.conns)
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.ended = true
	p.accept.Close() // ends serve; nothing to report
	p.dropAll()
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) serve() {
	defer p.work.Done()
	for {
		client, err := p.accept.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // that client is gone already
		}
		p.count.Add(1)
		p.work.Add(1)
		go p.forward(client)
	}
}

// admit notes an end of an open connection so that Cut finds it, or closes what is
// open if that was quicker.
func (p *Proxy) admit(end net.Conn, client bool, others ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.ended {
		for _, conn := range append(others, end) {
			conn.Close()
		}
		return false
	}
	p.conns[end] = client
	return true
}

func (p *Proxy) release(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
		delete(p.conns, conn)
	}
}

func (p *Proxy) forward(client net.Conn) {
	defer p.work.Done()
	if !p.admit(client, true) {
		return
	}
	server, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		p.release(client)
		return
	}
	if !p.admit(server, false, client) {
		return
	}
	var both sync.WaitGroup
	var held atomic.Pointer[heldBack] // what waits for the server's answer
	both.Go(func() {
		p.copy(server, client, &p.sent, func(write func() bool) bool { return p.hold(&held, write) })
		p.release(client, server)
	})
	both.Go(func() {
		p.copy(client, server, &p.received, func(write func() bool) bool {
			if h := held.Swap(nil); h != nil {
				close(h.answered)
			}
			return p.wait() && write()
		})
		p.release(client, server)
	})
	both.Wait()
	if h := held.Load(); h != nil {
		close(h.answered)
	}
}

// copy moves bytes until either end is closed or pass reports false. It does not use
// io.Copy, which would hand the work to the kernel and leave nothing to count or to
// delay.
func (p *Proxy) copy(to io.Writer, from io.Reader, count *atomic.Int64, pass func(write func() bool) bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			count.Add(int64(n))
			if count == &p.received {
				p.answered.Store(true)
			} else if p.answered.Swap(false) {
				p.turns.Add(1)
			}
			if !pass(func() bool { _, err := to.Write(buffer[:n]); return err == nil }) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold writes what a client has sent, or keeps it as HoldNext says; then nothing more
// is read until there is an answer, because a client that has gone would end the
// connection before the server has read it. It reports false if that was cut.
func (p *Proxy) hold(held *atomic.Pointer[heldBack], write func() bool) bool {
	p.mu.Lock()
	h, halt := p.next, p.halt
	p.next = nil
	p.mu.Unlock()
	if h == nil {
		return write()
	}
	close(h.caught)
	select {
	case <-h.pass:
	case <-halt:
		close(h.answered)
		return false
	}
	held.Store(h)
	if !write() {
		return false
	}
	select {
	case <-h.answered:
		return true
	case <-halt:
		return false
	}
}

// wait sits out the delay; false if the connection was cut meanwhile.
func (p *Proxy) wait() bool {
	p.mu.Lock()
	delay, halt := p.delay, p.halt
	p.mu.Unlock()
	if delay <= 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-halt:
		return false
	}
}
