package guardgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/guard/guardgrpc"
)

var sentinels = []error{guard.ErrFenced, guard.ErrLost, guard.ErrUnregistered, guard.ErrUnguarded, guard.ErrInvalidInput}

// A write under a received token passes or is refused by the database, and the caller
// sees the refusal as the error that it is.
func TestWritesUnderReceivedTokens(t *testing.T) {
	mine := guard.Token{Resource: "job", Epoch: 7, Grant: -3}
	for name, call := range roads {
		t.Run(name, func(t *testing.T) {
			db := jobs(t, mine)
			ours, bare := serve(t, func(ctx context.Context, state string) error {
				if err := guardgrpc.Require(ctx, "job"); err != nil {
					return err
				}
				_, err := db.ExecContext(ctx, `UPDATE job SET state = ?`, state)
				return err
			})
			is := func(want string) {
				t.Helper()
				var got string
				if err := db.QueryRowContext(t.Context(), `SELECT state FROM job`).Scan(&got); err != nil || got != want {
					t.Errorf("the state is %q, %v; want %q", got, err, want)
				}
			}
			for _, c := range []struct {
				tokens []guard.Token
				want   error
				code   codes.Code
			}{
				{[]guard.Token{mine}, nil, codes.OK},
				{[]guard.Token{{Resource: "job", Epoch: 6}}, guard.ErrFenced, codes.Aborted},
				{[]guard.Token{{Resource: "job", Epoch: 7, Grant: 4}}, guard.ErrFenced, codes.Aborted},
				{[]guard.Token{{Resource: "job", Epoch: 8}}, guard.ErrUnregistered, codes.FailedPrecondition},
				{[]guard.Token{{Resource: "other", Epoch: 1}}, guard.ErrUnguarded, codes.FailedPrecondition},
				{nil, guard.ErrUnguarded, codes.FailedPrecondition},
			} {
				err := call(guard.With(t.Context(), c.tokens...), ours, "by "+fmt.Sprint(c.tokens))
				if !errors.Is(err, c.want) || status.Code(err) != c.code {
					t.Errorf("%v: %v, want %v and %v", c.tokens, err, c.want, c.code)
				}
				if lost := errors.Is(err, guard.ErrLost); lost != (c.want == guard.ErrFenced) { //nolint:errorlint // the sentinel itself
					t.Errorf("%v: %v matches ErrLost: %t", c.tokens, err, lost)
				}
				is("by " + fmt.Sprint([]guard.Token{mine}))
			}

			// A caller without our interceptors: it sets the metadata, and reads the code.
			ctx := guardgrpc.SetMetadata(guard.With(t.Context(), mine))
			if err := call(ctx, bare, "by hand"); err != nil {
				t.Errorf("by hand: %v", err)
			}
			is("by hand")
			err := call(guardgrpc.SetMetadata(guard.With(ctx, guard.Token{Resource: "job", Epoch: 6})), bare, "late")
			if status.Code(err) != codes.Aborted || errors.Is(err, guard.ErrFenced) || !errors.Is(guardgrpc.Refusal(err), guard.ErrFenced) {
				t.Errorf("by hand, stale: %v, as a refusal %v", err, guardgrpc.Refusal(err))
			}
			is("by hand")
		})
	}
}

func TestTokensTravelFromContextToContext(t *testing.T) {
	for name, call := range roads {
		t.Run(name, func(t *testing.T) {
			var arrived []guard.Token
			ours, _ := serve(t, func(ctx context.Context, _ string) error {
				arrived = guard.Tokens(ctx)
				return nil
			})
			for _, sent := range [][]guard.Token{
				nil,
				{{Resource: "job-42", Epoch: 7, Grant: -3}},
				{{Resource: "a, b", Epoch: 1}, {Resource: "line\nbreak\r\nX: y", Epoch: 2}, {Resource: "ä%2C+ ", Epoch: 3}},
			} {
				if err := call(guard.With(t.Context(), sent...), ours, "x"); err != nil {
					t.Fatalf("%v: %v", sent, err)
				}
				if !slices.Equal(arrived, sent) {
					t.Errorf("sent %v, arrived %v", sent, arrived)
				}
			}
		})
	}
}

func TestMetadataThatCannotBeReadAreInvalid(t *testing.T) {
	for name, call := range roads {
		t.Run(name, func(t *testing.T) {
			_, bare := serve(t, func(context.Context, string) error {
				t.Error("the handler was called")
				return nil
			})
			for _, values := range [][]string{{"x"}, {""}, {"7.0.job%"}, {"0.0.job"}, {"7.0.job,"}, {"7.0.job, 8.0.job"}, {"7.0.job", "7.0.job"}} {
				ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{guardgrpc.Key: values})
				err := call(ctx, bare, "x")
				if status.Code(err) != codes.InvalidArgument || !errors.Is(guardgrpc.Refusal(err), guard.ErrInvalidInput) {
					t.Errorf("%q: %v, as a refusal %v", values, err, guardgrpc.Refusal(err))
				}
			}
		})
	}
}

func TestARefusalIsTheSameErrorAtTheCaller(t *testing.T) {
	token := guard.Token{Resource: "job-42", Epoch: 6}
	for name, call := range roads {
		t.Run(name, func(t *testing.T) {
			var cause error
			ours, _ := serve(t, func(context.Context, string) error { return cause })
			for _, c := range []struct {
				cause error
				code  codes.Code
				is    []error
			}{
				{&guard.FencedError{Token: token, HighWater: 7}, codes.Aborted, []error{guard.ErrFenced, guard.ErrLost}},
				{&guard.FencedError{Token: token, HighWater: 7, Err: errors.New("a server's text \xff")}, codes.Aborted, []error{guard.ErrFenced, guard.ErrLost}},
				{fmt.Errorf("by an ORM: %w \xff", guard.ErrLost), codes.Aborted, []error{guard.ErrLost}},
				{&guard.UnregisteredError{Token: token}, codes.FailedPrecondition, []error{guard.ErrUnregistered}},
				{&guard.UnguardedError{}, codes.FailedPrecondition, []error{guard.ErrUnguarded}},
				{guard.ErrInvalidInput, codes.InvalidArgument, []error{guard.ErrInvalidInput}},
				{status.Error(codes.Aborted, "an abort of the application's own"), codes.Aborted, nil},
				{errors.New("disk full"), codes.Unknown, nil},
			} {
				cause = c.cause
				err := call(t.Context(), ours, "x")
				if status.Code(err) != c.code {
					t.Errorf("%v: %v, want %v", c.cause, err, c.code)
				}
				for _, sentinel := range sentinels {
					if got, want := errors.Is(err, sentinel), slices.Contains(c.is, sentinel); got != want {
						t.Errorf("%v: at the caller %v, which matches %v: %t, want %t", c.cause, err, sentinel, got, want)
					}
				}
				var remote *guardgrpc.RemoteError
				if got, want := errors.As(err, &remote), len(c.is) > 0; got != want {
					t.Errorf("%v: at the caller a RemoteError: %t", c.cause, got)
				}
				// What a service in the middle returns to its own caller is the same again.
				if s, known := guardgrpc.Status(err); known != (len(c.is) > 0) || s.Code() != c.code {
					t.Errorf("%v: passed on as %v, %t", c.cause, s, known)
				}
			}
		})
	}
	if err := guardgrpc.Refusal(nil); err != nil {
		t.Errorf("no error is a refusal: %v", err)
	}
}
