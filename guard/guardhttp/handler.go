package guardhttp

import (
	"fmt"
	"net/http"

	"github.com/sqlfence/sqlfence/guard"
)

// Handler calls next with a context that carries the tokens of the request's header,
// in addition to those that it has. A header that cannot be read is answered with
// 400 Bad Request. A request without one goes on as it is.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens, err := FromHeader(r.Header)
		if err != nil {
			Error(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(guard.With(r.Context(), tokens...)))
	})
}

// Require calls next only if the request's context carries a token for the resource
// that the request is about, and answers 428 Precondition Required otherwise. Without
// it a caller without a token writes unguarded, and one with a valid token for a
// resource of its own writes to another's. It goes inside of [Handler]. It panics if
// resource is nil.
func Require(next http.Handler, resource func(*http.Request) string) http.Handler {
	if resource == nil {
		panic("sqlfence: guardhttp.Require without a resource")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wanted := resource(r)
		for _, t := range guard.Tokens(r.Context()) {
			if t.Resource == wanted {
				next.ServeHTTP(w, r)
				return
			}
		}
		Error(w, fmt.Errorf("%w: the request carries no token for %q in its header %s", guard.ErrUnguarded, wanted, Header))
	})
}
