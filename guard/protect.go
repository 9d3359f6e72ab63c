package guard

import (
	"context"
	"fmt"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// Protect has the database itself refuse writes to the table that have not passed
// the fence, whoever sends them: psql, other languages, a function called from a
// SELECT, COPY, TRUNCATE, a cascade of a foreign key. Partitions and tables that
// inherit are protected too; call it again after a new one was made or attached. It is
// idempotent, and brings back a trigger that was disabled or changed. A refused write
// fails with SQLSTATE SF008 ([SQLState]). A partition or an heir whose parent is not
// protected is [ErrInvalidInput]: it is written through the parent too.
//
// The name is an identifier of PostgreSQL ("jobs", "app.jobs", `"Odd Name"`), looked
// up by the search_path. The role must own the table and have the fence's GRANTs.
// It takes a lock that waits for open writes to the table.
//
// Any valid token counts: which resource guards which table is the driver's policy
// ([Bind]). Not refused are writes in a session with session_replication_role =
// replica, and those of whoever may drop or disable a trigger. A BEFORE trigger of an INSERT that itself writes to another protected
// table comes before the check of that INSERT and is refused, unless the transaction
// has passed the fence before.
//
// PostgreSQL only; for the other engines it returns an *[UnsupportedError].
func Protect(ctx context.Context, q Querier, engine sqlgen.Engine, table string) error {
	return protection(ctx, q, engine, "protect", table)
}

// Unprotect takes the protection off again.
func Unprotect(ctx context.Context, q Querier, engine sqlgen.Engine, table string) error {
	return protection(ctx, q, engine, "unprotect", table)
}

func protection(ctx context.Context, q Querier, engine sqlgen.Engine, function, table string) error {
	if err := known(engine); err != nil {
		return err
	}
	if engine != sqlgen.PostgreSQL {
		return &UnsupportedError{
			Kind:   fmt.Sprintf("%s on %s", function, engine),
			Reason: "its triggers know of nothing that a client could not set too, or do not see every write",
			Advice: "give the application's account alone the right to write",
		}
	}
	ctx = Without(ctx)
	if _, err := q.ExecContext(ctx, "SELECT sqlfence."+function+"($1::pg_catalog.text::pg_catalog.regclass)", table); err != nil {
		if ours := FromServer(err, nil); ours != nil {
			return ours
		}
		return err
	}
	return nil
}
