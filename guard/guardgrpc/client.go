package guardgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/sqlfence/sqlfence/guard"
)

// UnaryClientInterceptor sends the tokens of a call's context in its metadata, and
// returns refusals as [Refusal] does, so that errors.Is recognises them; status.Code
// still tells the code.
func UnaryClientInterceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return returned(invoker(sent(ctx), method, req, reply, cc, opts...))
	}
}

// StreamClientInterceptor is [UnaryClientInterceptor] for streams. The tokens are those
// of the context that the stream is opened with.
func StreamClientInterceptor() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(sent(ctx), desc, cc, method, opts...)
		if err != nil {
			return nil, returned(err)
		}
		return &clientStream{s}, nil
	}
}

func sent(ctx context.Context) context.Context {
	if len(guard.Tokens(ctx)) == 0 {
		return ctx
	}
	return SetMetadata(ctx)
}

// returned puts a refusal in the place of its status.
func returned(err error) error {
	if refusal := Refusal(err); refusal != nil {
		return refusal
	}
	return err
}

// clientStream is a stream whose errors are refusals where they can be.
type clientStream struct{ grpc.ClientStream }

func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, returned(err)
}

func (s *clientStream) CloseSend() error { return returned(s.ClientStream.CloseSend()) }

func (s *clientStream) SendMsg(m any) error { return returned(s.ClientStream.SendMsg(m)) }

func (s *clientStream) RecvMsg(m any) error { return returned(s.ClientStream.RecvMsg(m)) }
