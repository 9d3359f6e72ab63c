// Package linear checks that the operations of a lease store are linearizable:
// concurrent histories of clients that pause, give up and lose their connections
// are held against a model of one resource by porcupine.
package linear

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// state is the model: FREE (no owner), HELD or LAPSED.
type state struct {
	owner  string
	lapsed bool
	epoch  int64
	grant  int64 // below 0: that of a request whose answer was lost, see lostAcquire
}

// action is what a client asks for.
type action uint8

const (
	acquire action = iota
	renew
	release
	inspect
	lapse
	lostAcquire // an acquire whose outcome the client does not know
	withdrawal  // what its store does afterwards: it may release the grant
	lostRelease
)

func (a action) String() string {
	return [...]string{"acquire", "renew", "release", "inspect", "lapse", "lost acquire", "withdrawal", "lost release"}[a]
}

// outcome is what a client was told.
type outcome uint8

const (
	ok outcome = iota
	held
	notOwner
	lapsed
	mismatch
	unknown
)

func (o outcome) String() string {
	return [...]string{"ok", "held", "not owner", "lapsed", "mismatch", "unknown"}[o]
}

// input and output of one operation.
type input struct {
	do    action
	owner string
	epoch int64 // of the claim presented
	grant int64 // of the claim presented; of lost acquires their number, below 0
}

type output struct {
	told   outcome
	epoch  int64
	grant  int64
	owner  string // the holder that was told of
	lapsed bool
}

// model steps through the states that an operation with this output may lead to;
// none if its output is impossible.
var model = porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(s, in, out any) []any { return step(s.(state), in.(input), out.(output)) },
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%+v -> %+v", in, out)
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
}

func step(s state, in input, out output) []any {
	one := func(next state, possible bool) []any {
		if !possible {
			return nil
		}
		return []any{next}
	}
	live := s.owner != "" && !s.lapsed
	granted := state{owner: in.owner, epoch: s.epoch + 1, grant: in.grant}
	freed := state{epoch: s.epoch + 1}
	switch in.do {
	case acquire:
		if out.told == held {
			return one(s, live && s.owner != in.owner && s.owner == out.owner)
		}
		granted.grant = out.grant
		return one(granted, (!live || s.owner == in.owner) && out.epoch == granted.epoch)
	case lostAcquire:
		if live && s.owner != in.owner {
			return []any{s}
		}
		return []any{s, granted}
	case withdrawal:
		if s.grant == in.grant && s.owner != "" {
			return []any{s, freed}
		}
		return []any{s}
	case lapse:
		s.lapsed = s.owner != ""
		return []any{s}
	case inspect:
		return one(s, s.epoch == out.epoch && s.owner == out.owner && s.lapsed == out.lapsed)
	}
	// A claim: the reasons to refuse it, in their order.
	verdict := ok
	switch {
	case s.owner != in.owner:
		verdict = notOwner
	case s.lapsed:
		verdict = lapsed
	case s.epoch != in.epoch || s.grant != in.grant:
		verdict = mismatch
	}
	switch in.do {
	case renew:
		return one(s, out.told == verdict)
	case release:
		if verdict == ok {
			return one(freed, out.told == ok)
		}
		return one(s, out.told == verdict)
	case lostRelease:
		if verdict == ok {
			return []any{s, freed}
		}
		return []any{s}
	}
	return nil
}
