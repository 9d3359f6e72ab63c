package linear

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/memory"
)

func TestMemoryIsLinearizable(t *testing.T) {
	for range 5 {
		var ahead atomic.Int64
		Check(t, Config{
			Store:     memory.New(memory.Clock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })),
			Lapse:     func(testing.TB, string) { ahead.Add(int64(2 * time.Hour)) },
			Histories: 40,
		})
	}
}

func linearizable(history []porcupine.Operation) bool {
	return check(history, checkTime) == porcupine.Ok
}

// The control: stores with a fault each are found out.
func TestFaultsAreFoundOut(t *testing.T) {
	token := func(epoch, grant int64) input { return input{do: release, owner: "a", epoch: epoch, grant: grant} }
	granted := func(epoch, grant int64) output { return output{told: ok, epoch: epoch, grant: grant} }
	type op struct {
		call, end int64
		in        input
		out       output
	}
	for name, ops := range map[string][]op{
		"an epoch twice":                         {{1, 2, input{do: acquire, owner: "a"}, granted(1, 7)}, {3, 4, input{do: acquire, owner: "a"}, granted(1, 8)}},
		"two holders":                            {{1, 2, input{do: acquire, owner: "a"}, granted(1, 7)}, {3, 4, input{do: acquire, owner: "b"}, granted(2, 8)}},
		"a denial by nobody":                     {{1, 2, input{do: acquire, owner: "b"}, output{told: held, owner: "a"}}},
		"a release that is undone":               {{1, 2, input{do: acquire, owner: "a"}, granted(1, 7)}, {3, 4, token(1, 7), output{told: ok}}, {5, 6, input{do: inspect}, output{owner: "a", epoch: 1}}},
		"a release of another grant":             {{1, 2, input{do: acquire, owner: "a"}, granted(1, 7)}, {3, 4, token(1, 8), output{told: ok}}},
		"a stale read":                           {{1, 2, input{do: acquire, owner: "a"}, granted(1, 7)}, {3, 4, input{do: inspect}, output{}}},
		"the lapse before the owner":             {{1, 2, input{do: acquire, owner: "b"}, granted(1, 7)}, {3, 4, input{do: lapse}, output{}}, {5, 6, token(1, 7), output{told: lapsed}}},
		"an acquire that takes effect twice":     {{1, 2, input{do: acquire, owner: "a"}, granted(1, 7)}, {3, 4, token(1, 7), output{told: ok}}, {5, 6, input{do: inspect}, output{owner: "a", epoch: 3}}},
		"a lost acquire that takes effect twice": {{1, 9, input{do: lostAcquire, owner: "a", grant: -1}, output{told: unknown}}, {3, 4, input{do: inspect}, output{owner: "a", epoch: 1}}, {5, 6, input{do: inspect}, output{owner: "a", epoch: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			var history []porcupine.Operation
			for i, o := range ops {
				history = append(history, porcupine.Operation{ClientId: i, Input: o.in, Call: o.call, Output: o.out, Return: o.end})
			}
			if linearizable(history) {
				t.Error("it was not found out")
			}
		})
	}
}

// What nobody was told of can have come from an operation without an answer, and from
// nothing else.
func TestAnOperationWithoutAnAnswerFillsAGap(t *testing.T) {
	granted := output{told: ok, epoch: 3, grant: 7}
	for name, c := range map[string]struct {
		from, to int64 // when the operation without an answer began, and when it was over
		want     bool
	}{
		"between the two": {3, 4, true},
		"across both":     {1, 9, true},
		"before them":     {0, 0, false},
		"behind them":     {8, 9, false},
	} {
		t.Run(name, func(t *testing.T) {
			history := []porcupine.Operation{
				{ClientId: 0, Input: input{do: acquire, owner: "a"}, Call: 1, Output: output{told: ok, epoch: 1, grant: 6}, Return: 2},
				{ClientId: 1, Input: input{do: lostAcquire, owner: "a", grant: -1}, Call: c.from, Output: output{told: unknown}, Return: c.to},
				{ClientId: 0, Input: input{do: acquire, owner: "a"}, Call: 5, Output: granted, Return: 6},
				{ClientId: 0, Input: input{do: inspect}, Call: 10, Output: output{epoch: 3, owner: "a"}, Return: 11},
			}
			if got := linearizable(history); got != c.want {
				t.Errorf("linearizable: %v, want %v", got, c.want)
			}
		})
	}
}

// The same on a store with a fault, run for real.
func TestAStoreThatForgetsIsFoundOut(t *testing.T) {
	found := false
	for range 200 {
		s := forgetful{memory.New()}
		h := &history{Config: Config{Store: s, Lapse: func(testing.TB, string) {}}, t: t, resource: "r", start: time.Now()}
		h.run()
		if !linearizable(h.operations) {
			found = true
			break
		}
	}
	if !found {
		t.Error("200 histories of a store that tells of releases it has not made are linearizable")
	}
}

type forgetful struct{ lease.Store }

func (f forgetful) Release(ctx context.Context, c lease.Claim, wait time.Duration) error {
	if c.Token.Epoch%3 == 0 {
		return nil
	}
	return f.Store.Release(ctx, c, wait)
}
