package lease

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sqlfence/sqlfence/guard"
)

// Hooks are told what happens, for metrics. They are called from the manager's
// own goroutines and from its callers', at once and many at a time; they must
// not block. A nil field is not called.
type Hooks struct {
	// Acquired: a lease was handed out, waited after it was asked for.
	Acquired func(t guard.Token, waited time.Duration)
	// Denied: one attempt was denied, by a *HeldError or *BlockedError.
	Denied func(resource string, denial error)
	// Renewed: one request to renew leases was answered, or has failed: err
	// is that of the whole request; failed counts the leases that were not
	// renewed.
	Renewed func(leases, failed int, took time.Duration, err error)
	// Lost: ownership ended other than by Release.
	Lost func(t guard.Token, cause error)
	// Released: a Release ended; err is nil or what it returned.
	Released func(t guard.Token, err error)
	// Evicted: sessions in the way of a takeover were ended, see EvictAfter.
	Evicted func(resource string, sessions []Blocker, err error)
}

// WithHooks sets the hooks.
func WithHooks(h Hooks) Option { return func(s *settings) { s.report.hooks = h } }

// WithLogger makes the manager log: losses, failed renewals and releases, and
// evictions as warnings; grants and releases at level debug. Tokens are no
// secrets, and are logged.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.report.logger = l } }

// report tells hooks and logger.
type report struct {
	hooks  Hooks
	logger *slog.Logger // nil: none
}

func (r *report) log(level slog.Level, message string, args ...any) {
	if r.logger != nil {
		r.logger.Log(context.Background(), level, "sqlfence: "+message, args...)
	}
}

func (r *report) acquired(t guard.Token, waited time.Duration) {
	if r.hooks.Acquired != nil {
		r.hooks.Acquired(t, waited)
	}
	r.log(slog.LevelDebug, "lease acquired", "token", t.String(), "waited", waited)
}

func (r *report) denied(resource string, denial error) {
	if r.hooks.Denied != nil {
		r.hooks.Denied(resource, denial)
	}
	if errors.Is(denial, ErrBlocked) {
		r.log(slog.LevelWarn, "takeover blocked", "resource", resource, "err", denial)
	}
}

func (r *report) renewed(leases, failed int, took time.Duration, err error) {
	if r.hooks.Renewed != nil {
		r.hooks.Renewed(leases, failed, took, err)
	}
	if failed > 0 {
		r.log(slog.LevelWarn, "renewal failed", "leases", leases, "failed", failed, "took", took, "err", err)
	}
}

func (r *report) lost(t guard.Token, cause error) {
	if r.hooks.Lost != nil {
		r.hooks.Lost(t, cause)
	}
	r.log(slog.LevelWarn, "lease lost", "token", t.String(), "cause", cause)
}

func (r *report) released(t guard.Token, err error) {
	if r.hooks.Released != nil {
		r.hooks.Released(t, err)
	}
	if err != nil {
		r.log(slog.LevelWarn, "release failed", "token", t.String(), "err", err)
	} else {
		r.log(slog.LevelDebug, "lease released", "token", t.String())
	}
}

func (r *report) evicted(resource string, sessions []Blocker, err error) {
	if len(sessions) == 0 && err == nil {
		return
	}
	if r.hooks.Evicted != nil {
		r.hooks.Evicted(resource, sessions, err)
	}
	r.log(slog.LevelWarn, "sessions evicted", "resource", resource, "sessions", sessions, "err", err)
}
