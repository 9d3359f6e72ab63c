package guard

import (
	"context"
	"slices"
	"strings"
)

type contextKey struct{}

// annotation is what a context carries: immutable once stored.
type annotation struct {
	tokens  []Token // sorted by resource, one per resource
	without bool
}

// With returns a context under which every write is guarded by the tokens, in
// addition to those that ctx carries for other resources; a token for the same
// resource takes the place of the older one. All tokens of a context must be
// valid for a write to pass. An invalid token (see [Token.Validate]) is not an
// error here: the first write with it is refused with [ErrInvalidInput].
//
// With after [Without] guards again.
func With(ctx context.Context, tokens ...Token) context.Context {
	if len(tokens) == 0 {
		return ctx
	}
	var merged []Token
	if a := annotationOf(ctx); a != nil && !a.without {
		merged = slices.Clone(a.tokens)
	}
	for _, t := range tokens {
		i, found := slices.BinarySearchFunc(merged, t, compareResource)
		if found {
			merged[i] = t
		} else {
			merged = slices.Insert(merged, i, t)
		}
	}
	return context.WithValue(ctx, contextKey{}, &annotation{tokens: merged})
}

// Without returns a context under which writes are not guarded, also inside a
// transaction that was begun with a token, and also where the policy requires
// one. It is the one explicit, greppable escape; a transaction that was
// already refused stays refused.
func Without(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, &annotation{without: true})
}

// Tokens returns the tokens that ctx carries, sorted by resource; nil where it
// carries none or was made by [Without]. The caller must not change the slice.
func Tokens(ctx context.Context) []Token {
	if a := annotationOf(ctx); a != nil {
		return a.tokens
	}
	return nil
}

// IsWithout reports whether ctx was made by [Without].
func IsWithout(ctx context.Context) bool {
	a := annotationOf(ctx)
	return a != nil && a.without
}

func annotationOf(ctx context.Context) *annotation {
	a, _ := ctx.Value(contextKey{}).(*annotation)
	return a
}

// compareResource orders by bytes: one order in all processes, so that two
// writers with the same tokens never wait for each other's turnstile.
func compareResource(a, b Token) int { return strings.Compare(a.Resource, b.Resource) }
