package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sqlfence/sqlfence/guard"
)

// AcquireAll takes the leases of several resources, all or none. It takes them one
// after the other in the order of their names' bytes, as everybody does who uses
// it, so that two of them never wait for each other; those it has are kept alive
// until it returns, and released if it fails. A name that is given twice counts
// once. The leases come in the order of the names.
//
// [Wait] bounds the whole. The errors are those of [Manager.Acquire] for the
// resource that could not be had, and the loss of one that was had before.
func (m *Manager) AcquireAll(ctx context.Context, resources []string, opts ...Option) (_ []*Lease, err error) {
	if len(resources) == 0 {
		return nil, fmt.Errorf("%w: AcquireAll of nothing", ErrInvalidInput)
	}
	for _, resource := range resources {
		if err := guard.ValidateResource(resource); err != nil {
			return nil, err
		}
	}
	set, err := m.settings(opts)
	if err != nil {
		return nil, err
	}
	names := slices.Compact(slices.Sorted(slices.Values(resources)))

	// Whoever keeps the earlier ones alive ends the waiting if one is lost.
	kept, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leases := make([]*Lease, 0, len(names))
	defer func() {
		if err == nil {
			return
		}
		for _, l := range slices.Backward(leases) {
			if released := l.Release(ctx); released != nil && !errors.Is(released, ErrLost) {
				err = errors.Join(err, released)
			}
		}
	}()
	start := m.now()
	for _, name := range names {
		each := opts
		if set.bounded {
			each = append(slices.Clone(opts), Wait(max(set.bound-m.now().since(start), 0)))
		}
		l, err := m.Acquire(kept, name, each...)
		if err != nil {
			return nil, fmt.Errorf("sqlfence: %d of %d resources were had: %w", len(leases), len(names), err)
		}
		leases = append(leases, l)
		if len(leases) < len(names) {
			alive := l.KeepAlive(kept)
			context.AfterFunc(alive, func() { cancel(context.Cause(alive)) })
		}
	}
	for _, l := range leases {
		if loss := l.loss(); loss != nil {
			return nil, loss
		}
	}
	return leases, nil
}

// HoldAll is [Manager.Hold] for several resources, taken as [Manager.AcquireAll]
// does. fn's context carries all tokens, and ends when one of the leases is lost.
func (m *Manager) HoldAll(ctx context.Context, resources []string, fn func(context.Context) error, opts ...Option) error {
	if fn == nil {
		return errNoFunction
	}
	leases, err := m.AcquireAll(ctx, resources, opts...)
	if err != nil {
		return err
	}
	run := fn
	for _, l := range leases {
		inner := run
		run = func(ctx context.Context) error { return l.hold(ctx, inner) }
	}
	return run(ctx)
}
