// Package redis keeps leases in Redis 7. Its customary import name is
// leaseredis.
//
// It takes any client of github.com/redis/go-redis/v9: of a single server, of
// Sentinel, of a Cluster. Each operation is one script, in one round trip. A
// resource is one key, so that lease, counter and mark cannot come apart, and
// a Cluster holds them in one slot.
//
// # What is durable when
//
// Redis acknowledges what it has not yet written or replicated. With appendfsync
// everysec a crash loses the last second, with always nothing; a failover loses
// what the replica had not received; FLUSHALL and eviction lose everything, and
// no setting here prevents that: use maxmemory-policy noeviction. A lost counter
// mints old epochs again. Their grants differ, so tokens are never confused, but
// an old epoch is not above a mark. So where the guarded data is in a SQL
// database, give the manager its fence, see [lease.WithFence]: the mark there is
// the floor, and the next token is above it.
//
// # Requests that are sent again
//
// By default go-redis sends a request again whose answer was lost (MaxRetries: 3), and
// each operation here then has the effect and the answer of one: an Acquire is
// answered with the grant that it was given first, and a Release with success, also
// if somebody else has acquired the resource since. If that somebody has released it
// as well in the meantime, the Release is answered with [lease.ErrNotOwner]: the
// resource was given back all the same. An Acquire that was sent again in vain is an
// error, and is withdrawn. One that was sent again, and of which
// the first copy reaches the server when its lease is released already, is granted
// once more, to nobody: the resource is held until that TTL has passed. With
// MaxRetries: -1 nothing is sent again; a lost answer is an error, and an Acquire is
// withdrawn.
//
// # Guarded writes to Redis
//
// [Store.Script] runs a Lua script only under a valid token. The mark that it is
// held to is in the same Redis, and lost with it: a token is then refused as
// unregistered.
package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/withdrawal"
	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/internal/grant"
	"github.com/sqlfence/sqlfence/lease/internal/listen"
)

const (
	// maxBatch is how many leases one script renews: some milliseconds, in
	// which the server does nothing else.
	maxBatch = 1000
)

// Store is a [lease.Store] on Redis, and a fence of its own. It is safe for
// concurrent use.
type Store struct {
	client goredis.UniversalClient
	prefix string
	// apart: keys live on several servers, so no script may name two of them.
	apart bool
	hub   listen.Hub
}

var _ lease.Store = (*Store)(nil)

// Option is an option of [New].
type Option func(*Store)

// Prefix sets what the names of all keys, and of the channel that tells of
// releases, begin with; "sqlfence" if not set. Stores with different prefixes
// know nothing of each other.
func Prefix(p string) Option { return func(s *Store) { s.prefix = p } }

// New returns a Store on a client, whose MaxRetries may be anything: see the package
// comment. It panics if the prefix holds a brace, which
// would move keys to other slots of a Cluster.
func New(client goredis.UniversalClient, opts ...Option) *Store {
	s := &Store{client: client, prefix: "sqlfence"}
	for _, opt := range opts {
		opt(s)
	}
	if strings.ContainsAny(s.prefix, "{}") {
		panic("sqlfence: the prefix " + strconv.Quote(s.prefix) + " holds a brace")
	}
	switch client.(type) {
	case *goredis.ClusterClient, *goredis.Ring:
		s.apart = true
	}
	s.hub.Listen = s.subscribe
	return s
}

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// Tag returns what a key must hold to be in the same slot of a Cluster as the
// resource: its name in braces, with braces and per cent signs in it escaped.
func (s *Store) Tag(resource string) string { return "{" + escape.Replace(resource) + "}" }

// Key returns the key of a resource.
func (s *Store) Key(resource string) string { return s.prefix + ":" + s.Tag(resource) }

func (s *Store) abandonedKey(resource string, request int64) string {
	return s.Key(resource) + ":abandoned:" + strconv.FormatInt(request, 10)
}

func (s *Store) channel() string { return s.prefix + ":released" }

func (s *Store) askChannel() string { return s.prefix + ":asked" }

// Acquire implements [lease.Store]. There is nothing that it could wait for. An
// expiry is a multiple of a microsecond.
//
// If the answer is lost, the request is withdrawn before Acquire returns: a lease
// that it was granted is released, and if it is still on its way the server
// will refuse it. Where that has not succeeded within 5 s, or 0.4 s after the
// context's end, the error says so.
func (s *Store) Acquire(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	if err := req.Validate(); err != nil {
		return lease.Granted{}, err
	}
	request := &noted{number: grant.New()}
	answer, err := s.run(ctx, acquireScript, []string{s.Key(req.Resource), s.abandonedKey(req.Resource, request.number)},
		req.Owner, req.TTL.Microseconds(), req.Reentry.String(), request, max(req.MinEpoch-1, 0))
	if err != nil {
		if !request.isOpen(err) {
			return lease.Granted{}, err
		}
		return lease.Granted{}, s.withdraw(ctx, req, request.number, err)
	}
	switch a := fields(answer); a.text(0) {
	case "ok":
		token := guard.Token{Resource: req.Resource, Epoch: a.int(1), Grant: a.int(2)}
		if a.bad || token.Epoch < 1 {
			return lease.Granted{}, unexpected("acquire", answer)
		}
		return lease.Granted{Token: token, Expiry: instant(a.int(3)), TTL: microseconds(a.int(4))}, nil
	case "held":
		return lease.Granted{}, &lease.HeldError{
			Resource: req.Resource, Holder: a.text(1), Remaining: microseconds(a.int(2)),
		}
	case "exhausted":
		return lease.Granted{}, fmt.Errorf("%w: acquire of %q", lease.ErrExhausted, req.Resource)
	}
	return lease.Granted{}, unexpected("acquire", answer)
}

// withdraw makes sure that a request whose answer was lost is not granted and
// will not be. It returns cause, with what is left open if that could not be
// made sure of.
func (s *Store) withdraw(ctx context.Context, req lease.AcquireRequest, request int64, cause error) error {
	left := fmt.Sprintf("%q may be held by %q for up to %v", req.Resource, req.Owner, req.TTL)
	var final func(error) bool
	if isAnswer(cause) { // the server is there, and would say the same again
		final = isAnswer
	}
	return withdrawal.Run(ctx, cause, left, func(ctx context.Context) error {
		_, err := s.run(ctx, abandonScript, []string{s.Key(req.Resource), s.abandonedKey(req.Resource, request)},
			request, grant.New(), s.channel(), req.Resource)
		return err
	}, final)
}

// Renew implements [lease.Store]: a script for every 1,000 leases, in one round
// trip; on a Cluster, whose keys are on several servers, a script for each
// lease, in one pipeline for each server.
//
// It is always a pipeline, because go-redis has connections of their own for those:
// renewals do not wait for one of the pool, which commands of the program may all have
// taken (CASES D11). A negative PipelinePoolSize takes that away: give the store a
// client of its own then.
func (s *Store) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	renewed := make([]lease.Renewed, len(claims))
	valid := make([]int, 0, len(claims))
	for i, c := range claims {
		if renewed[i].Err = c.Validate(); renewed[i].Err == nil {
			renewed[i].Err = lease.ValidateTTL(c.TTL)
		}
		if renewed[i].Err == nil {
			valid = append(valid, i)
		}
	}
	size := maxBatch
	if s.apart {
		size = 1
	}
	var requests []request
	for rest := valid; len(rest) > 0; {
		part := rest[:min(size, len(rest))]
		rest = rest[len(part):]
		r := request{script: renewScript}
		for _, i := range part {
			c := claims[i]
			r.keys = append(r.keys, s.Key(c.Token.Resource))
			r.args = append(r.args, c.Owner, c.Token.Epoch, c.Token.Grant, c.TTL.Microseconds())
		}
		requests = append(requests, r)
	}
	if len(requests) == 0 {
		return renewed, ctx.Err()
	}
	answers, errs := s.runAll(ctx, requests, s.pipe)
	for n := range requests {
		part := valid[n*size : min((n+1)*size, len(valid))]
		if errs[n] == nil && len(answers[n]) != len(part) {
			errs[n] = unexpected("renew", answers[n])
		}
		if errs[n] != nil && len(requests) == 1 {
			return nil, errs[n]
		}
		for k, i := range part {
			if errs[n] != nil {
				renewed[i].Err = errs[n] // a passing failure of these
				continue
			}
			one, _ := answers[n][k].([]any)
			if a := fields(one); a.text(0) == "ok" {
				renewed[i].Expiry = instant(a.int(1))
			} else {
				renewed[i].Err = loss("renew", claims[i], one)
			}
		}
	}
	return renewed, nil
}

// Release implements [lease.Store]. There is nothing that it could wait for. It
// tells whoever waits for the resource, if the client's user may publish to the
// channel "<prefix>:released".
func (s *Store) Release(ctx context.Context, claim lease.Claim, wait time.Duration) error {
	if err := claim.Validate(); err != nil {
		return err
	}
	if wait < 0 {
		return fmt.Errorf("%w: negative wait %v", lease.ErrInvalidInput, wait)
	}
	answer, err := s.run(ctx, releaseScript, []string{s.Key(claim.Token.Resource)},
		claim.Owner, claim.Token.Epoch, claim.Token.Grant, grant.New(), s.channel(), claim.Token.Resource)
	if err != nil {
		return err
	}
	switch a := fields(answer); a.text(0) {
	case "ok":
		return nil
	case "exhausted":
		return fmt.Errorf("%w: release of %q", lease.ErrExhausted, claim.Token.Resource)
	}
	return loss("release", claim, answer)
}

// Inspect implements [lease.Store].
func (s *Store) Inspect(ctx context.Context, resource string) (lease.State, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return lease.State{}, err
	}
	answer, err := s.run(ctx, inspectScript, []string{s.Key(resource)})
	if err != nil {
		return lease.State{}, err
	}
	a := fields(answer)
	state := lease.State{Resource: resource, Owner: a.text(0), Epoch: a.int(1), HighWater: a.int(2)}
	if expiry, left := a.int(3), a.int(4); state.Owner != "" {
		state.Expiry, state.Status = instant(expiry), lease.Lapsed
		if left > 0 {
			state.Status, state.Remaining = lease.Held, microseconds(left)
		}
	}
	if a.bad {
		return lease.State{}, unexpected("inspect", answer)
	}
	return state, nil
}

// Check returns nil if the token passes the mark in this store now, else a
// *[guard.FencedError] or a *[guard.UnregisteredError]. The answer may be old
// when it arrives; [Store.Script] checks and writes in one step.
func (s *Store) Check(ctx context.Context, token guard.Token) error {
	if err := token.Validate(); err != nil {
		return err
	}
	answer, err := s.run(ctx, inspectScript, []string{s.Key(token.Resource)})
	if err != nil {
		return err
	}
	a := fields(answer)
	mark, grant := a.int(2), a.int(5)
	if a.bad {
		return unexpected("check", answer)
	}
	return guard.Judge(token, mark, grant)
}

// Advance raises the mark in this store to a token issued elsewhere. It returns
// nil also if the mark is there already with the same grant, and a
// *[guard.FencedError] if it is higher or belongs to another grant.
func (s *Store) Advance(ctx context.Context, token guard.Token) error {
	if err := token.Validate(); err != nil {
		return err
	}
	answer, err := s.run(ctx, advanceScript, []string{s.Key(token.Resource)}, token.Epoch, token.Grant)
	if err != nil {
		return err
	}
	a := fields(answer)
	mark, grant := a.int(0), a.int(1)
	if a.bad {
		return unexpected("advance", answer)
	}
	return guard.Judge(token, mark, grant)
}

// run runs one script.
func (s *Store) run(ctx context.Context, script *goredis.Script, keys []string, args ...any) ([]any, error) {
	answers, errs := s.runAll(ctx, []request{{script, keys, args}}, s.send)
	return answers[0], errs[0]
}

// request is one script to run.
type request struct {
	script *goredis.Script
	keys   []string
	args   []any
}

// runAll runs scripts by send. There is an answer or an error for each. It returns
// when ctx ends, also where the client does not heed it.
func (s *Store) runAll(ctx context.Context, requests []request, send func(context.Context, []request) ([][]any, []error)) ([][]any, []error) {
	if err := ctx.Err(); err != nil {
		return everywhere(&notSentError{err}, len(requests))
	}
	type result struct {
		answers [][]any
		errs    []error
	}
	done := make(chan result, 1)
	go func() {
		answers, errs := send(ctx, requests)
		done <- result{answers, errs}
	}()
	select {
	case r := <-done:
		for i, err := range r.errs {
			r.errs[i] = s.tellPool(err)
		}
		return r.answers, r.errs
	case <-ctx.Done():
		return everywhere(s.tellPool(ctx.Err()), len(requests))
	}
}

// tellPool adds to an error what looks like a server that does not answer, and is cured
// elsewhere.
func (s *Store) tellPool(err error) error {
	client, ok := s.client.(*goredis.Client)
	if !ok || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, goredis.ErrPoolTimeout) {
		return err
	}
	size := client.Options().PoolSize
	if stats := client.PoolStats(); stats.IdleConns > 0 || int64(stats.TotalConns) < int64(size) {
		return err
	}
	return fmt.Errorf("%w: all %d connections of the client are in use (PoolSize): give the lease store a client of its own", err, size)
}

func everywhere(err error, n int) ([][]any, []error) {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return make([][]any, n), errs
}

// send runs one script on a connection of the client's pool.
func (s *Store) send(ctx context.Context, requests []request) ([][]any, []error) {
	r := requests[0]
	command := r.script.EvalSha(ctx, s.client, r.keys, r.args...)
	if goredis.HasErrorPrefix(command.Err(), "NOSCRIPT") {
		for _, arg := range r.args {
			if n, ok := arg.(*noted); ok {
				n.times.CompareAndSwap(1, 0) // that was the answer
			}
		}
		command = r.script.Eval(ctx, s.client, r.keys, r.args...)
	}
	answer, err := command.Slice()
	return [][]any{answer}, []error{err}
}

// pipe runs scripts in one round trip to each server concerned, and again in full
// those that the server does not know.
func (s *Store) pipe(ctx context.Context, requests []request) ([][]any, []error) {
	answers, errs := make([][]any, len(requests)), make([]error, len(requests))
	pipe := func(pending []int, add func(p goredis.Pipeliner, r request) *goredis.Cmd) {
		p := s.client.Pipeline()
		commands := make([]*goredis.Cmd, len(pending))
		for n, i := range pending {
			commands[n] = add(p, requests[i])
		}
		_, _ = p.Exec(ctx) // each command has its error
		for n, i := range pending {
			answers[i], errs[i] = commands[n].Slice()
		}
	}
	all := make([]int, len(requests))
	for i := range all {
		all[i] = i
	}
	pipe(all, func(p goredis.Pipeliner, r request) *goredis.Cmd { return r.script.EvalSha(ctx, p, r.keys, r.args...) })
	var unknown []int
	for i, err := range errs {
		if goredis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		pipe(unknown, func(p goredis.Pipeliner, r request) *goredis.Cmd { return r.script.Eval(ctx, p, r.keys, r.args...) })
	}
	return answers, errs
}

// notSentError is the error of a request that was not sent.
type notSentError struct{ error }

func (e *notSentError) Unwrap() error { return e.error }

// noted is the number of a request, as an argument that notes how often the client has
// written it to a connection: one whose answer was lost is sent again, and what came of
// the first is not told by the error of the last.
type noted struct {
	number int64
	times  atomic.Int32
}

// MarshalBinary is what the client calls when it writes the argument.
func (n *noted) MarshalBinary() ([]byte, error) {
	n.times.Add(1)
	return strconv.AppendInt(nil, n.number, 10), nil
}

func (n *noted) String() string { return strconv.FormatInt(n.number, 10) }

// isOpen reports whether a request that failed may have reached the server without
// being answered.
func (n *noted) isOpen(err error) bool {
	var notSent *notSentError
	var network *net.OpError
	times := n.times.Load()
	switch {
	case errors.As(err, &notSent):
		return false
	case isAnswer(err):
		return times > 1
	case errors.As(err, &network) && network.Op == "dial", errors.Is(err, goredis.ErrPoolTimeout):
		return times > 0
	}
	return true // where the context has ended, it may be written yet
}

// isAnswer reports whether err is the server's own.
func isAnswer(err error) bool {
	var answer goredis.Error
	return errors.As(err, &answer)
}

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

func microseconds(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
