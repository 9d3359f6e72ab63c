package linear

import (
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// window is the time in which an epoch came about.
type window struct{ after, before int64 }

func (w window) meets(o porcupine.Operation) bool { return o.Call <= w.before && o.Return >= w.after }

// check tells whether a history is linearizable, or that this took too long.
//
// What makes it hard are the operations without an answer: each may have taken effect
// or not, at any time. But every change of a resource takes the next epoch, and whoever
// was told of a change knows its epoch. So those without an answer made the gaps, the
// epochs up to the highest seen that nobody was told to have made, and nothing else that
// shows: the last operation of a history is an inspection. A history is linearizable if
// it is so with one of the ways to fill the gaps.
func check(operations []porcupine.Operation, limit time.Duration) porcupine.CheckResult {
	var answered, lost []porcupine.Operation
	for _, o := range operations {
		if o.Output.(output).told == unknown {
			lost = append(lost, o)
		} else {
			answered = append(answered, o)
		}
	}
	deadline := time.Now().Add(limit)
	result := porcupine.Illegal
	fill(gaps(answered), lost, nil, func(filled []porcupine.Operation) bool {
		switch porcupine.CheckOperationsTimeout(model, slices.Concat(answered, filled), max(time.Until(deadline), 1)) {
		case porcupine.Ok:
			result = porcupine.Ok
			return false
		case porcupine.Unknown:
			result = porcupine.Unknown
		}
		return true
	})
	return result
}

// gap is an epoch that nobody was told to have made, and when it came about: after
// what was seen below it began, before what was seen from it on was over.
type gap struct {
	epoch int64
	window
}

func gaps(answered []porcupine.Operation) []gap {
	made := map[int64]bool{}
	type sight struct{ epoch, call, end int64 }
	var sights []sight
	var highest int64
	for _, o := range answered {
		in, out := o.Input.(input), o.Output.(output)
		epoch := out.epoch
		switch {
		case in.do == acquire && out.told == ok:
			made[epoch] = true
		case in.do == release && out.told == ok:
			epoch = in.epoch + 1
			made[epoch] = true
		case in.do != inspect:
			continue
		}
		highest = max(highest, epoch)
		sights = append(sights, sight{epoch, o.Call, o.Return})
	}
	var all []gap
	for e := int64(1); e <= highest; e++ {
		if made[e] {
			continue
		}
		w := window{math.MinInt64, math.MaxInt64}
		for _, s := range sights {
			if s.epoch < e {
				w.after = max(w.after, s.call)
			} else {
				w.before = min(w.before, s.end)
			}
		}
		all = append(all, gap{e, w})
	}
	return all
}

// fill gives yield each way to fill the gaps by operations of lost, until it returns
// false.
func fill(gaps []gap, lost, filled []porcupine.Operation, yield func([]porcupine.Operation) bool) bool {
	if len(gaps) == 0 {
		return yield(filled)
	}
	g := gaps[0]
	for i, o := range lost {
		in := o.Input.(input)
		switch in.do {
		case withdrawal:
			// It gives back the grant before, or none.
			if len(filled) == 0 {
				continue
			}
			before := filled[len(filled)-1]
			if b := before.Input.(input); b.do != lostAcquire || b.grant != in.grant || before.Output.(output).epoch != g.epoch-1 {
				continue
			}
		case lostRelease:
			if in.epoch != g.epoch-1 {
				continue
			}
		}
		if !g.meets(o) {
			continue
		}
		o.Call, o.Return = max(o.Call, g.after), min(o.Return, g.before)
		o.Output = output{told: ok, epoch: g.epoch}
		if !fill(gaps[1:], slices.Delete(slices.Clone(lost), i, i+1), append(slices.Clip(filled), o), yield) {
			return false
		}
	}
	return true
}
