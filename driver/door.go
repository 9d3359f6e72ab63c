package driver

import (
	"context"
	"database/sql/driver"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/door"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// pass lets a takeover on SQLite go first that waits for the write lock, before
// this connection begins a guarded write of its own. See internal/door: it is a
// courtesy, and without an answer about the file there is none.
func (s *session) pass(ctx context.Context, tokens []guard.Token) {
	if s.engine != sqlgen.SQLite || tokens == nil || s.inTransaction() {
		return
	}
	if !s.fileAsked {
		s.fileAsked = true
		_ = s.read(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'", nil, func(row []driver.Value) error {
			s.file, _ = asString(row[0])
			return nil
		})
	}
	door.Pass(ctx, s.file)
}
