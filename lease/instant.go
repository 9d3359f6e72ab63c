package lease

import "time"

// instant is one moment on two clocks. The monotonic clock may stand still
// while the machine is suspended, and the wall clock may be set: whichever
// says that more time has passed is believed. So a machine that wakes up finds
// its leases expired, and setting the clock back extends none.
type instant struct {
	mono time.Time // carries a monotonic reading
	wall time.Time // carries none
}

func machineNow() instant { return instantOf(time.Now()) }

// instantOf splits t. Where t has no monotonic reading, its wall clock stands
// for both.
func instantOf(t time.Time) instant { return instant{mono: t, wall: t.Round(0)} }

// since returns how much time has passed since earlier, on the clock that says
// more.
func (i instant) since(earlier instant) time.Duration {
	return max(i.mono.Sub(earlier.mono), i.wall.Sub(earlier.wall))
}
