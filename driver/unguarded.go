package driver

import (
	"context"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// unguarded returns what the program is told of a statement under tokens that cannot be
// guarded, and why. Where it is executed all the same (guard.Audit), the tokens are
// checked before it is: in an open transaction they then stay valid until its end,
// outside of one a takeover may come between.
func (s *session) unguarded(ctx context.Context, d *decision, why error) error {
	if !s.policy.Audits() {
		return why
	}
	if err := s.checkedBefore(ctx, d); err != nil {
		return err
	}
	return s.policy.Report(d.plan, why)
}

func (s *session) checkedBefore(ctx context.Context, d *decision) error {
	tokens := d.tokens
	if err := s.box(ctx, tokens); err != nil {
		return err
	}
	if s.fake != nil {
		return s.failed(ctx, s.fake.Check(ctx, tokens...), tokens)
	}
	if err := s.locate(ctx); err != nil {
		return err
	}
	s.holds = s.engine == sqlgen.MySQL && s.inTransaction()
	if err := s.verify(ctx, tokens); err != nil {
		return err
	}
	if err := s.observe(ctx, tokens); err != nil {
		return err
	}
	s.touched = s.touched || s.engine == sqlgen.PostgreSQL && s.inTransaction()
	if s.engine == sqlgen.SQLite && s.inTransaction() {
		// Read first, and a deferred transaction can no longer wait for the lock.
		if err := s.run(ctx, takeWriteLock, nil); err != nil {
			return s.failed(ctx, err, tokens)
		}
	}
	return s.failed(ctx, s.ask(ctx, tokens), tokens)
}
