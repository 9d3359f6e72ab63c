// Package guard is the meaning of the fence: what a token is, how a context
// carries it, which writes need one, and what is wrong when a write is refused.
//
// It knows nothing of drivers. A program annotates a context,
//
//	ctx = guard.With(ctx, lease.Token())
//
// and runs its database/sql code with it through a database opened with one of
// the driver packages.
package guard
