package guardgrpc_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	_ "github.com/sqlfence/sqlfence/driver/sqlite" // registers "sqlfence-sqlite"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/guard/guardgrpc"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service sets the state of a job; resource is "job".
type service struct {
	set func(ctx context.Context, state string) error
}

func (s *service) one(ctx context.Context, state *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	if err := s.set(ctx, state.GetValue()); err != nil {
		return nil, err
	}
	return state, nil
}

func (s *service) many(stream grpc.ServerStream) error {
	for {
		var state wrapperspb.StringValue
		if err := stream.RecvMsg(&state); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.set(stream.Context(), state.GetValue()); err != nil {
			return err
		}
		if err := stream.SendMsg(&state); err != nil {
			return err
		}
	}
}

const (
	unary  = "/jobs/One"
	stream = "/jobs/Many"
)

// description is what protoc would generate.
var description = grpc.ServiceDesc{
	ServiceName: "jobs",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "One",
		Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			handler := func(ctx context.Context, req any) (any, error) {
				return srv.(*service).one(ctx, req.(*wrapperspb.StringValue))
			}
			if interceptor == nil {
				return handler(ctx, in)
			}
			return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: unary}, handler)
		},
	}},
	Streams: []grpc.StreamDesc{{
		StreamName: "Many", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, s grpc.ServerStream) error { return srv.(*service).many(s) },
	}},
}

// serve starts the service with our interceptors, and returns a client that has ours
// too, and a bare one.
func serve(t *testing.T, set func(ctx context.Context, state string) error) (ours, bare *grpc.ClientConn) {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(guardgrpc.UnaryServerInterceptor()),
		grpc.ChainStreamInterceptor(guardgrpc.StreamServerInterceptor()))
	server.RegisterService(&description, &service{set})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	connect := func(opts ...grpc.DialOption) *grpc.ClientConn {
		cc, err := grpc.NewClient("passthrough:///jobs", append(opts,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cc.Close() })
		return cc
	}
	return connect(
		grpc.WithChainUnaryInterceptor(guardgrpc.UnaryClientInterceptor()),
		grpc.WithChainStreamInterceptor(guardgrpc.StreamClientInterceptor())), connect()
}

// roads are the ways to call the service: the error is that of the call, or of the
// answer to one message of a stream.
var roads = map[string]func(ctx context.Context, cc *grpc.ClientConn, state string) error{
	"unary": func(ctx context.Context, cc *grpc.ClientConn, state string) error {
		return cc.Invoke(ctx, unary, wrapperspb.String(state), new(wrapperspb.StringValue))
	},
	"stream": func(ctx context.Context, cc *grpc.ClientConn, state string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := cc.NewStream(ctx, &description.Streams[0], stream)
		if err != nil {
			return err
		}
		if err := s.SendMsg(wrapperspb.String(state)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
			return err
		}
		return s.CloseSend()
	},
}

// jobs is a table with one job, and a fence whose newest token is mine.
func jobs(t *testing.T, mine guard.Token) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlfence-sqlite", "file:"+t.TempDir()+"/jobs.db?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := guard.Migrate(t.Context(), db, sqlgen.SQLite); err != nil {
		t.Fatal(err)
	}
	if err := guard.NewFence(db, sqlgen.SQLite).Advance(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE job (state text)`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO job VALUES ('new')`); err != nil {
		t.Fatal(err)
	}
	return db
}
