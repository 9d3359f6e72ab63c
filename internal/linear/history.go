package linear

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sqlfence/sqlfence/lease"
)

var histories = flag.Int("linear.histories", 0, "how many histories are checked for each store; 0 for its default")

// Config is a store under test.
type Config struct {
	Store lease.Store // safe for concurrent use

	// Lapse makes the lease of the resource lapse at once, if it is held.
	Lapse func(t testing.TB, resource string)

	// Break, if not nil, breaks the connections of Store now and then.
	Break func()

	Histories int // how many, unless the flag -linear.histories tells
}

const (
	clients    = 8
	operations = 8 // of each client, in one history
	mostLost   = 6
	checkTime  = time.Minute
)

// Check fails the test unless all histories are linearizable.
func Check(t *testing.T, c Config) {
	t.Helper()
	n := c.Histories
	if *histories > 0 {
		n = *histories
	}
	run := rand.Uint32()
	var lost, told, undecided int
	for i := range n {
		resource := fmt.Sprintf("linear/%08x/%d", run, i)
		h := &history{Config: c, t: t, resource: resource, start: time.Now()}
		h.run()
		lost += int(h.lost.Load())
		told += len(h.operations)
		switch check(h.operations, checkTime) {
		case porcupine.Ok:
		case porcupine.Unknown:
			undecided++
		default:
			for _, o := range h.operations {
				t.Logf("client %d [%d, %d]: %v", o.ClientId, o.Call, o.Return, model.DescribeOperation(o.Input, o.Output))
			}
			t.Fatalf("history %d is not linearizable", i)
		}
	}
	t.Logf("%d histories of %d clients, %d operations, %d of them without an answer; %d histories were not decided in %v",
		n, clients, told, lost, undecided, checkTime)
	if undecided > 0 {
		t.Errorf("%d of %d histories were not decided", undecided, n)
	}
}

// history is one run of the clients.
type history struct {
	Config
	t        *testing.T
	resource string
	start    time.Time
	lost     atomic.Int64

	mu         sync.Mutex
	operations []porcupine.Operation
	endless    []int // places of operations whose end nobody knows
}

func (h *history) now() int64 { return time.Since(h.start).Nanoseconds() }

// add notes an operation that began at call. One that is endless may take effect
// at any later time.
func (h *history) add(client int, call int64, in input, out output, endless bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if endless {
		h.endless = append(h.endless, len(h.operations))
	}
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: h.now()})
}

func (h *history) run() {
	stop := make(chan struct{})
	var breaker, all sync.WaitGroup
	if h.Break != nil {
		breaker.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rand.IntN(100)) * time.Millisecond):
					// Each operation without an answer may come at any time: with
					// many of them a history takes for ever to check.
					if h.lost.Load() < mostLost {
						h.Break()
					}
				}
			}
		})
	}
	for i := range clients {
		all.Go(func() { h.client(i) })
	}
	all.Wait()
	close(stop)
	breaker.Wait()
	h.last()
	end := h.now() + 1
	for _, i := range h.endless {
		h.operations[i].Return = end
	}
}

// client runs its operations, one after the other. Two share a name, so that an
// owner also meets its own.
func (h *history) client(id int) {
	owner := fmt.Sprint("owner-", id/2)
	var claim lease.Claim // the last one granted
	for range operations {
		if rand.IntN(3) == 0 {
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond) // a pause of the process
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if rand.IntN(10) == 0 {
			time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, cancel) // it gives up
		}
		pick := rand.IntN(10)
		switch {
		case pick < 4:
			claim = h.acquire(ctx, id, owner, claim)
		case pick == 4:
			call := h.now()
			h.Lapse(h.t, h.resource)
			h.add(id, call, input{do: lapse}, output{}, false)
		case pick == 5 || claim.Owner == "":
			h.inspect(ctx, id)
		case pick < 8:
			h.renew(ctx, id, claim)
		default:
			h.release(ctx, id, claim)
		}
		cancel()
	}
}

func (h *history) acquire(ctx context.Context, id int, owner string, before lease.Claim) lease.Claim {
	call := h.now()
	g, err := h.Store.Acquire(ctx, lease.AcquireRequest{Resource: h.resource, Owner: owner, TTL: time.Hour, Wait: 10 * time.Second})
	in := input{do: acquire, owner: owner}
	var denied *lease.HeldError
	switch {
	case err == nil:
		h.add(id, call, in, output{told: ok, epoch: g.Token.Epoch, grant: g.Token.Grant}, false)
		return lease.Claim{Token: g.Token, Owner: owner, TTL: time.Hour}
	case errors.As(err, &denied):
		h.add(id, call, in, output{told: held, owner: denied.Holder}, false)
	default:
		// No grant that a store has told of is so near below 0, but by a chance
		// of one in 2^57.
		number := -h.lost.Add(1)
		in.grant = number
		// A store that could not withdraw the request says so. Otherwise nothing of
		// it may take effect later (SPEC §4).
		endless := strings.Contains(err.Error(), "withdrawn")
		in.do = lostAcquire
		h.add(id, call, in, output{told: unknown}, endless)
		in.do = withdrawal
		h.add(clients+id, call, in, output{told: unknown}, endless)
	}
	return before
}

// last reads what has become of the resource: see [check].
func (h *history) last() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for before := len(h.operations); len(h.operations) == before; {
		if ctx.Err() != nil {
			h.t.Error("the store does not answer at the end of a history")
			return
		}
		h.inspect(ctx, clients)
	}
}

func (h *history) inspect(ctx context.Context, id int) {
	call := h.now()
	s, err := h.Store.Inspect(ctx, h.resource)
	if err == nil {
		h.add(id, call, input{do: inspect}, output{epoch: s.Epoch, owner: s.Owner, lapsed: s.Status == lease.Lapsed}, false)
	}
}

func (h *history) renew(ctx context.Context, id int, c lease.Claim) {
	call := h.now()
	renewed, err := h.Store.Renew(ctx, []lease.Claim{c})
	if err == nil && len(renewed) == 1 {
		err = renewed[0].Err
	}
	// Without an answer, a renewal may have moved the expiry, which is not part
	// of the model.
	if told := toldOf(err); told != unknown {
		h.add(id, call, claimed(renew, c), output{told: told}, false)
	}
}

func (h *history) release(ctx context.Context, id int, c lease.Claim) {
	call := h.now()
	told := toldOf(h.Store.Release(ctx, c, 10*time.Second))
	if told == unknown {
		h.lost.Add(1)
		h.add(id, call, claimed(lostRelease, c), output{told: told}, true)
		return
	}
	h.add(id, call, claimed(release, c), output{told: told}, false)
}

func claimed(do action, c lease.Claim) input {
	return input{do: do, owner: c.Owner, epoch: c.Token.Epoch, grant: c.Token.Grant}
}

func toldOf(err error) outcome {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, lease.ErrNotOwner):
		return notOwner
	case errors.Is(err, lease.ErrLapsed):
		return lapsed
	case errors.Is(err, lease.ErrEpochMismatch):
		return mismatch
	}
	return unknown
}
