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
	lostAcquire // one whose answer was lost, and that took effect
	withdrawal  // what its store did afterwards: it released the grant
	lostRelease // one whose answer was lost, and that took effect
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

// model steps to the one state that an operation with this output leads to, if it is
// possible.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) { return step(s.(state), in.(input), out.(output)) },
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%+v -> %+v", in, out)
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
}

func step(s state, in input, out output) (bool, any) {
	live := s.owner != "" && !s.lapsed
	granted := state{owner: in.owner, epoch: s.epoch + 1, grant: in.grant}
	freed := state{epoch: s.epoch + 1}
	switch in.do {
	case acquire:
		if out.told == held {
			return live && s.owner != in.owner && s.owner == out.owner, s
		}
		granted.grant = out.grant
		return (!live || s.owner == in.owner) && out.epoch == granted.epoch, granted
	case lostAcquire:
		return (!live || s.owner == in.owner) && out.epoch == granted.epoch, granted
	case withdrawal:
		return s.owner != "" && s.grant == in.grant && out.epoch == freed.epoch, freed
	case lapse:
		s.lapsed = s.owner != ""
		return true, s
	case inspect:
		return s.epoch == out.epoch && s.owner == out.owner && s.lapsed == out.lapsed, s
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
	if verdict == ok && in.do != renew {
		return out.told == ok, freed // release, lostRelease
	}
	return out.told == verdict, s
}
