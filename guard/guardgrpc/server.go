package guardgrpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/sqlfence/sqlfence/guard"
)

// UnaryServerInterceptor calls handlers with a context that carries the tokens of the
// call's metadata, in addition to those that it has, and answers a handler's error by
// [Status] where that knows it; other errors go on as they are. Metadata that cannot
// be read are answered with InvalidArgument. A call without any goes on as it is.
func UnaryServerInterceptor() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, err := received(ctx)
		if err != nil {
			return nil, answer(err)
		}
		resp, err := handler(ctx, req)
		return resp, answer(err)
	}
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streams.
func StreamServerInterceptor() grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, err := received(stream.Context())
		if err != nil {
			return answer(err)
		}
		return answer(handler(srv, &serverStream{stream, ctx}))
	}
}

// serverStream is a stream whose context carries tokens.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }

func received(ctx context.Context) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	tokens, err := FromMetadata(md)
	if err != nil {
		return nil, err
	}
	return guard.With(ctx, tokens...), nil
}

// Require returns nil if ctx carries a token for the resource that a call is about,
// and otherwise an error that matches [guard.ErrUnguarded], for the handler to return.
// Without it a caller without a token writes unguarded, and one with a valid token for
// a resource of its own writes to another's.
func Require(ctx context.Context, resource string) error {
	for _, t := range guard.Tokens(ctx) {
		if t.Resource == resource {
			return nil
		}
	}
	return fmt.Errorf("%w: the call carries no token for %q in its metadata %s", guard.ErrUnguarded, resource, Key)
}
