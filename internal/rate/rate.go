// Package rate measures how often clients that work at the same time get their
// work done.
package rate

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// warmUp is how often each client works before the clock starts: pools are filled
// then, and statements prepared.
const warmUp = 10

// Rate is what was measured.
type Rate struct {
	PerSecond float64 // of all clients together, without the warm-up
	Calls     int64   // of all clients together, with it
}

// Measure has each client, a function that does one piece of work, do it again and
// again for d. All begin at the same moment. A client that fails stops, and the
// errors of all are joined.
func Measure(d time.Duration, clients []func() error) (Rate, error) {
	var (
		warm, done sync.WaitGroup
		start      = make(chan struct{})
		stop       atomic.Bool
		total      atomic.Int64
		errs       = make([]error, len(clients))
	)
	warm.Add(len(clients))
	for client, work := range clients {
		done.Go(func() {
			for range warmUp {
				if errs[client] == nil {
					errs[client] = work()
				}
			}
			warm.Done()
			<-start
			n := int64(0)
			for errs[client] == nil && !stop.Load() {
				errs[client] = work()
				n++
			}
			total.Add(n)
		})
	}
	warm.Wait()
	began := time.Now()
	close(start)
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	done.Wait()
	r := Rate{
		PerSecond: float64(total.Load()) / time.Since(began).Seconds(),
		Calls:     total.Load() + int64(len(clients)*warmUp),
	}
	return r, errors.Join(errs...)
}
