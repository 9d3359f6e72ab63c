package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/internal/bound"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/answer"
)

// maxBatch is how many leases one call renews. Their rows are locked until it is
// through.
const maxBatch = 1000

// Renew implements [lease.Store]: a call for every 1,000 leases. A claim whose row
// another transaction has locked fails for itself at once; one that comes alone is
// tried again until shortly before ctx's deadline, at most for its TTL.
func (s *Store) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	return s.renewOn(ctx, s.onConn, claims)
}

// renewOn renews with what on gives a connection to.
func (s *Store) renewOn(ctx context.Context, on connector, claims []lease.Claim) ([]lease.Renewed, error) {
	renewed := make([]lease.Renewed, len(claims))
	valid := make([]int, 0, len(claims)) // positions in claims
	for i, c := range claims {
		if renewed[i].Err = c.Validate(); renewed[i].Err == nil {
			renewed[i].Err = lease.ValidateTTL(c.TTL)
		}
		if renewed[i].Err == nil {
			valid = append(valid, i)
		}
	}
	if len(valid) == 0 {
		return renewed, nil
	}
	db, err := s.qualifier(ctx)
	if err != nil {
		return nil, explain(err)
	}
	// In one order everywhere: batches then cannot wait for each other in a circle.
	sortByResource(valid, claims)
	for rest := valid; len(rest) > 0; {
		part := rest[:min(maxBatch, len(rest))]
		rest = rest[len(part):]
		if err := s.renewBatch(ctx, on, db, claims, part, renewed); err != nil {
			return nil, explain(err)
		}
	}
	if len(claims) == 1 && len(valid) == 1 {
		b := newBound(ctx, claims[0].TTL)
		for length := time.Millisecond; errors.Is(renewed[0].Err, answer.ErrBusy) && b.Left() > 0; length = min(2*length, maxPause) {
			if !bound.Pause(ctx, length) {
				return nil, ctx.Err()
			}
			if err := s.renewBatch(ctx, on, db, claims, valid, renewed); err != nil {
				return nil, explain(err)
			}
		}
	}
	return renewed, nil
}

func (s *Store) renewBatch(ctx context.Context, on connector, db string, claims []lease.Claim, part []int, renewed []lease.Renewed) error {
	var list strings.Builder
	for i, position := range part {
		c := claims[position]
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		list.WriteByte(sep)
		fmt.Fprintf(&list, `["%s","%s",%d,%d,%d]`, hex.EncodeToString([]byte(c.Token.Resource)), hex.EncodeToString([]byte(c.Owner)),
			c.Token.Epoch, c.Token.Grant, c.TTL.Microseconds())
	}
	list.WriteByte(']')
	var answers string
	text := call(db, "renew", "'"+list.String()+"'", truth(s.pool != nil))
	err := s.retry(ctx, func() error {
		return on(ctx, func(q Querier) error {
			return query(ctx, q, text, func(rows *sql.Rows) error { return rows.Scan(&answers) })
		})
	})
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(answers, ";"), ";")
	if len(lines) != len(part) {
		return answer.Unexpected("renew", strconv.Itoa(len(lines))+" answers")
	}
	for i, position := range part {
		if renewed[position], err = readRenewed(claims[position], lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// readRenewed reads "outcome expires_at holder epoch mark", with - for null.
func readRenewed(c lease.Claim, line string) (lease.Renewed, error) {
	fields := strings.Split(line, " ")
	if len(fields) != 5 {
		return lease.Renewed{}, answer.Unexpected("renew", line)
	}
	var numbers [5]sql.NullInt64
	for _, i := range []int{1, 3, 4} {
		if fields[i] == "-" {
			continue
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return lease.Renewed{}, answer.Unexpected("renew", line)
		}
		numbers[i] = sql.NullInt64{Int64: n, Valid: true}
	}
	var holder sql.NullString
	if fields[2] != "-" {
		b, err := hex.DecodeString(fields[2])
		if err != nil {
			return lease.Renewed{}, answer.Unexpected("renew", line)
		}
		holder = sql.NullString{String: string(b), Valid: true}
	}
	if fields[0] != "ok" {
		return lease.Renewed{Err: answer.Loss("renew", c, fields[0], holder, numbers[3], numbers[4])}, nil
	}
	if !numbers[1].Valid {
		return lease.Renewed{}, answer.Unexpected("renew", line)
	}
	return lease.Renewed{Expiry: answer.Instant(numbers[1].Int64)}, nil
}

func sortByResource(positions []int, claims []lease.Claim) {
	byResource := func(a, b int) int { return strings.Compare(claims[a].Token.Resource, claims[b].Token.Resource) }
	slices.SortStableFunc(positions, byResource)
}
