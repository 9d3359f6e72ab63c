package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/connection"
	"github.com/sqlfence/sqlfence/sqlgen"
)

const (
	// maxBatch is how many leases one statement renews. Its parameters are far from
	// what SQLite allows by default (32,766), and a longer text takes longer for each
	// lease.
	maxBatch = 1000

	// maxRequest is how many leases of a manager are renewed under one write lock,
	// for 10 to 20 µs each on a busy machine.
	maxRequest = 10 * maxBatch
)

var _ lease.Batcher = (*Store)(nil)

// Batch implements [lease.Batcher]: the write lock is taken once for 10,000 leases.
func (s *Store) Batch() int { return maxRequest }

// Renew implements [lease.Store]. All claims are renewed in one transaction, by a
// statement for every 1,000, or as many as the driver's SQLite allows parameters for.
// It waits for the write lock until ctx ends; then nothing has been renewed.
func (s *Store) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	return s.renewOn(ctx, nil, claims)
}

// renewOn renews on the connection that is kept for that, if there is one.
func (s *Store) renewOn(ctx context.Context, kept *connection.Kept, claims []lease.Claim) ([]lease.Renewed, error) {
	renewed := make([]lease.Renewed, len(claims))
	valid := make([]int, 0, len(claims)) // positions in claims
	for i, c := range claims {
		renewed[i].Err = validate(c)
		if renewed[i].Err == nil {
			renewed[i].Err = lease.ValidateTTL(c.TTL)
		}
		if renewed[i].Err == nil {
			valid = append(valid, i)
		}
	}
	if len(valid) == 0 {
		return renewed, nil
	}
	err := s.write(ctx, operation{
		resource: claims[valid[0]].Token.Resource,
		wait:     untilContextEnds,
		kept:     kept,
		do: func(ctx context.Context, q Querier) error {
			size := maxBatch
			for rest := valid; len(rest) > 0; {
				part := different(rest[:min(size, len(rest))], claims)
				err := renewPart(ctx, q, claims, part, renewed)
				if err != nil && size > 1 && isTooMany(err) {
					size /= 2 // nothing of it has been executed
					continue
				}
				if err != nil {
					return err
				}
				rest = rest[len(part):]
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return renewed, nil
}

// different returns the first positions, up to the second claim to a resource: one
// statement changes a row once.
func different(positions []int, claims []lease.Claim) []int {
	seen := make(map[string]bool, len(positions))
	for n, i := range positions {
		resource := claims[i].Token.Resource
		if seen[resource] {
			return positions[:n]
		}
		seen[resource] = true
	}
	return positions
}

// renewPart renews claims to different resources by one statement, and asks by another
// one what has become of those that were not renewed.
func renewPart(ctx context.Context, q Querier, claims []lease.Claim, part []int, renewed []lease.Renewed) error {
	args := make([]any, 0, len(part)*sqlgen.SQLiteRenewParams)
	for _, i := range part {
		c := claims[i]
		args = append(args, c.Token.Resource, c.Owner, c.Token.Epoch, c.Token.Grant, milliseconds(c.TTL))
	}
	expiries := make(map[string]int64, len(part))
	err := each(ctx, q, sqlgen.SQLiteLeaseRenew(len(part)), args, func(rows *sql.Rows) error {
		var resource string
		var expiry int64
		if err := rows.Scan(&resource, &expiry); err != nil {
			return err
		}
		expiries[resource] = expiry
		return nil
	})
	if err != nil {
		return err
	}
	var lost []int
	for _, i := range part {
		if expiry, ok := expiries[claims[i].Token.Resource]; ok {
			renewed[i] = lease.Renewed{Expiry: time.UnixMilli(expiry).UTC()}
		} else {
			lost = append(lost, i)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	states, err := readStates(ctx, q, claims, lost)
	if err != nil {
		return err
	}
	for _, i := range lost {
		renewed[i] = lease.Renewed{Err: states[claims[i].Token.Resource].loss("renew", claims[i])}
	}
	return nil
}

// readStates is readState for the resources of several claims.
func readStates(ctx context.Context, q Querier, claims []lease.Claim, positions []int) (map[string]state, error) {
	resources := make([]any, len(positions))
	for n, i := range positions {
		resources[n] = claims[i].Token.Resource
	}
	states := make(map[string]state, len(positions))
	err := each(ctx, q, sqlgen.SQLiteLeaseStates(len(positions)), resources, func(rows *sql.Rows) error {
		var resource string
		s, err := scanState(func(columns ...any) error { return rows.Scan(append([]any{&resource}, columns...)...) })
		states[resource] = s
		return err
	})
	if err == nil && len(states) == 0 {
		err = errNoMeta
	}
	return states, err
}

// each runs a query and scans all of its rows: RETURNING has changed all of them
// before the first is there, and the statement ends with the last.
func each(ctx context.Context, q Querier, text string, args []any, scan func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return setup(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return errors.Join(setup(rows.Err()), rows.Close())
}

// isTooMany reports whether a statement has more parameters than this SQLite was
// built, or set, to take. Its text is never translated.
func isTooMany(err error) bool {
	return strings.Contains(err.Error(), "too many SQL variables")
}
