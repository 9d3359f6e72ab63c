package lease

import (
	"context"
	"fmt"
	"time"
)

// Evicter is implemented by stores that can end the sessions in the way of a
// takeover: postgres.
type Evicter interface {
	// Evict ends the sessions whose transactions hold the fence of the resource
	// and have been open for at least grace, and no others; nobody's while
	// another owner than the named one holds the resource. It returns those
	// that it ended. Prepared transactions it leaves alone.
	Evict(ctx context.Context, resource, owner string, grace time.Duration) ([]Blocker, error)
}

// EvictAfter makes an Acquire that has waited for grace on guarded transactions
// of a former owner end the sessions that hold them, if they have been open for
// at least that long. It is for clients that vanished without their connections:
// their work was refused anyway. The store must be an [Evicter]; prepared
// transactions are not ended, but named in the *[BlockedError].
func EvictAfter(grace time.Duration) Option {
	return func(s *settings) { s.evict, s.evicting = grace, true }
}

// evictAfter ends what is in the way of a request that still waits after its
// grace, without giving its place in the queue up, until stop is called.
func (m *Manager) evictAfter(ctx context.Context, set settings, req AcquireRequest) (stop func()) {
	if !set.evicting {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(set.evict)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			evicted, err := m.store.(Evicter).Evict(ctx, req.Resource, req.Owner, set.evict)
			if ctx.Err() != nil && err != nil {
				return
			}
			set.report.evicted(req.Resource, evicted, err)
			timer.Reset(max(set.evict, minEvictPause))
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// minEvictPause is between two attempts to evict.
const minEvictPause = 100 * time.Millisecond

// checkEvict refuses what the store cannot do.
func (m *Manager) checkEvict(set settings) error {
	if _, ok := m.store.(Evicter); set.evicting && !ok {
		return fmt.Errorf("%w: EvictAfter: a %T cannot evict", ErrInvalidInput, m.store)
	}
	return nil
}
