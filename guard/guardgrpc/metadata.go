// Package guardgrpc carries fencing tokens between services over gRPC: in metadata from
// a caller's context into the handler's, and a refusal back as a status that the
// caller's side turns into the error again. It is what guardhttp is for HTTP, in a
// module of its own, so that gRPC reaches nobody who does not ask for it.
//
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(guardgrpc.UnaryServerInterceptor()),
//		grpc.ChainStreamInterceptor(guardgrpc.StreamServerInterceptor()))
//
//	client, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(guardgrpc.UnaryClientInterceptor()),
//		grpc.WithChainStreamInterceptor(guardgrpc.StreamClientInterceptor()))
//
// A token is no secret and no permission: it can only make a write be refused. Who may
// call is for the service to decide by other means.
package guardgrpc

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/sqlfence/sqlfence/guard"
)

// Key is the key of the metadata that carries tokens: their text form (see
// [guard.Token.String]), escaped like a part of a URL's query, in several values or
// separated by commas. It is guardhttp's header.
const Key = "fencing-token"

// SetMetadata returns a context whose outgoing metadata has the tokens of ctx, and no
// others. [UnaryClientInterceptor] and [StreamClientInterceptor] do it for each call.
func SetMetadata(ctx context.Context) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Delete(Key)
	for _, t := range guard.Tokens(ctx) {
		// A resource may hold any text: line breaks and commas among others.
		md.Append(Key, url.QueryEscape(t.String()))
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// FromMetadata returns the tokens of a call's metadata, nil if there are none. The
// error matches [guard.ErrInvalidInput]; two tokens for one resource are one.
func FromMetadata(md metadata.MD) ([]guard.Token, error) {
	var tokens []guard.Token
	seen := map[string]bool{}
	for _, line := range md.Get(Key) {
		for value := range strings.SplitSeq(line, ",") {
			text, err := url.QueryUnescape(strings.TrimSpace(value))
			if err != nil {
				return nil, fmt.Errorf("%w: metadata %s: %w", guard.ErrInvalidInput, Key, err)
			}
			t, err := guard.ParseToken(text)
			if err != nil {
				return nil, fmt.Errorf("metadata %s: %w", Key, err)
			}
			if seen[t.Resource] {
				return nil, fmt.Errorf("%w: metadata %s: two tokens for %q", guard.ErrInvalidInput, Key, t.Resource)
			}
			seen[t.Resource] = true
			tokens = append(tokens, t)
		}
	}
	return tokens, nil
}
