// Package guardhttp carries fencing tokens between services over HTTP: in a header
// from a caller's context into the handler's, and a refusal back as a status that the
// caller's side turns into the error again.
//
//	mux.Handle("PUT /jobs/{id}", guardhttp.Require(put, func(r *http.Request) string { return "job-" + r.PathValue("id") }))
//	http.ListenAndServe(addr, guardhttp.Handler(mux))
//
//	client := &http.Client{Transport: &guardhttp.Transport{}}
//
// A token is no secret and no permission: it can only make a write be refused. Who may
// call is for the service to decide by other means.
package guardhttp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/sqlfence/sqlfence/guard"
)

// Header is the name of the request header that carries tokens: their text form
// (see [guard.Token.String]), escaped like a part of a URL's query, separated by
// commas or in several headers.
const Header = "Fencing-Token"

// SetHeader sets the request header to the tokens of the request's context, and
// removes it where there are none.
func SetHeader(r *http.Request) {
	r.Header.Del(Header)
	var values []string
	for _, t := range guard.Tokens(r.Context()) {
		// A resource may hold any text: line breaks and commas among others.
		values = append(values, url.QueryEscape(t.String()))
	}
	if len(values) > 0 {
		r.Header.Set(Header, strings.Join(values, ", "))
	}
}

// FromHeader returns the tokens of a request header, nil if there are none. The error
// matches [guard.ErrInvalidInput]; two tokens for one resource are one.
func FromHeader(h http.Header) ([]guard.Token, error) {
	var tokens []guard.Token
	seen := map[string]bool{}
	for _, line := range h.Values(Header) {
		for _, value := range strings.Split(line, ",") {
			text, err := url.QueryUnescape(strings.TrimSpace(value))
			if err != nil {
				return nil, fmt.Errorf("%w: header %s: %w", guard.ErrInvalidInput, Header, err)
			}
			t, err := guard.ParseToken(text)
			if err != nil {
				return nil, fmt.Errorf("header %s: %w", Header, err)
			}
			if seen[t.Resource] {
				return nil, fmt.Errorf("%w: header %s: two tokens for %q", guard.ErrInvalidInput, Header, t.Resource)
			}
			seen[t.Resource] = true
			tokens = append(tokens, t)
		}
	}
	return tokens, nil
}
