package guardhttp

import (
	"fmt"
	"net/http"

	"github.com/sqlfence/sqlfence/guard"
)

// Transport sends the tokens of a request's context in its header. It is safe for
// concurrent use if Base is.
type Transport struct {
	Base http.RoundTripper // http.DefaultTransport if nil
}

// RoundTrip implements [http.RoundTripper]. It does not change the request that it is
// given.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if len(guard.Tokens(r.Context())) > 0 {
		r = r.Clone(r.Context())
		SetHeader(r)
	}
	return base.RoundTrip(r)
}

// Refusal returns the error that the other side answered with [Error]: a *[RemoteError]
// that matches guard.ErrFenced, guard.ErrLost, guard.ErrUnregistered,
// guard.ErrUnguarded or guard.ErrInvalidInput; nil for every other response. It does
// not read the body.
func Refusal(resp *http.Response) error {
	reason := resp.Header.Get(ReasonHeader)
	for _, r := range refusals {
		if r.reason == reason && r.status == resp.StatusCode {
			return &RemoteError{Status: resp.Status, Cause: r.cause}
		}
	}
	return nil
}

// RemoteError is a refusal by a service that was called. It matches its cause, and
// [guard.ErrLost] if that is [guard.ErrFenced].
type RemoteError struct {
	Status string // of the response, such as "412 Precondition Failed"
	Cause  error
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("%v: by the service that was called: %s", e.Cause, e.Status)
}

// Is makes a fenced request match [guard.ErrLost].
func (e *RemoteError) Is(target error) bool {
	return target == guard.ErrLost && e.Cause == guard.ErrFenced //nolint:errorlint // the sentinel itself
}

// Unwrap returns the cause.
func (e *RemoteError) Unwrap() error { return e.Cause }
