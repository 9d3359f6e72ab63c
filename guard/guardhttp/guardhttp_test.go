package guardhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/guard/guardhttp"
)

func get(t *testing.T, client *http.Client, url string, tokens ...guard.Token) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(guard.With(t.Context(), tokens...), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestTokensTravelFromContextToContext(t *testing.T) {
	var arrived []guard.Token
	server := httptest.NewServer(guardhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived = guard.Tokens(r.Context())
	})))
	defer server.Close()
	client := &http.Client{Transport: &guardhttp.Transport{}}
	for _, sent := range [][]guard.Token{
		nil,
		{{Resource: "job-42", Epoch: 7, Grant: -3}},
		{{Resource: "a, b", Epoch: 1}, {Resource: "line\nbreak\r\nX: y", Epoch: 2}, {Resource: "ä%2C+ ", Epoch: 3}},
	} {
		if resp := get(t, client, server.URL, sent...); resp.StatusCode != http.StatusOK {
			t.Fatalf("%v: %s", sent, resp.Status)
		}
		if !slices.Equal(arrived, sent) {
			t.Errorf("sent %v, arrived %v", sent, arrived)
		}
	}
}

func TestAHeaderThatCannotBeReadIsABadRequest(t *testing.T) {
	handler := guardhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") }))
	for _, lines := range [][]string{{"x"}, {""}, {"7.0.job%"}, {"0.0.job"}, {"7.0.job,"}, {"7.0.job, 8.0.job"}, {"7.0.job", "7.0.job"}} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header[guardhttp.Header] = lines
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%q: %d, want 400", lines, w.Code)
		}
	}
}

func TestRequireAsksForTheTokenOfTheResource(t *testing.T) {
	handler := guardhttp.Handler(guardhttp.Require(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}), func(r *http.Request) string { return "job-" + r.URL.Query().Get("id") }))
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &guardhttp.Transport{}}
	mine, others := guard.Token{Resource: "job-1", Epoch: 1}, guard.Token{Resource: "job-2", Epoch: 1}
	for _, c := range []struct {
		tokens []guard.Token
		want   int
	}{
		{nil, http.StatusPreconditionRequired},
		{[]guard.Token{others}, http.StatusPreconditionRequired},
		{[]guard.Token{mine}, http.StatusNoContent},
		{[]guard.Token{mine, others}, http.StatusNoContent},
	} {
		resp := get(t, client, server.URL+"?id=1", c.tokens...)
		if resp.StatusCode != c.want {
			t.Errorf("%v: %s, want %d", c.tokens, resp.Status, c.want)
		}
		if err := guardhttp.Refusal(resp); (c.want == http.StatusPreconditionRequired) != errors.Is(err, guard.ErrUnguarded) {
			t.Errorf("%v: refusal %v", c.tokens, err)
		}
	}
}

func TestARefusalIsTheSameErrorAtTheCaller(t *testing.T) {
	var cause error
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !guardhttp.Error(w, cause) {
			http.Error(w, "something else", http.StatusPreconditionFailed)
		}
	}))
	defer server.Close()
	token := guard.Token{Resource: "job-42", Epoch: 6}
	for _, c := range []struct {
		cause  error
		status int
		is     []error
	}{
		{&guard.FencedError{Token: token, HighWater: 7}, http.StatusPreconditionFailed, []error{guard.ErrFenced, guard.ErrLost}},
		{fmt.Errorf("by an ORM: %w", guard.ErrLost), http.StatusPreconditionFailed, []error{guard.ErrLost}},
		{&guard.UnregisteredError{Token: token}, http.StatusConflict, []error{guard.ErrUnregistered}},
		{&guard.UnguardedError{}, http.StatusPreconditionRequired, []error{guard.ErrUnguarded}},
		{guard.ErrInvalidInput, http.StatusBadRequest, []error{guard.ErrInvalidInput}},
		{errors.New("a 412 of the application's own"), http.StatusPreconditionFailed, nil},
	} {
		cause = c.cause
		resp := get(t, http.DefaultClient, server.URL)
		if resp.StatusCode != c.status {
			t.Errorf("%v: %s, want %d", c.cause, resp.Status, c.status)
		}
		err := guardhttp.Refusal(resp)
		for _, sentinel := range []error{guard.ErrFenced, guard.ErrLost, guard.ErrUnregistered, guard.ErrUnguarded, guard.ErrInvalidInput} {
			if got, want := errors.Is(err, sentinel), slices.Contains(c.is, sentinel); got != want {
				t.Errorf("%v: at the caller %v, which matches %v: %t, want %t", c.cause, err, sentinel, got, want)
			}
		}
		if body, _ := io.ReadAll(resp.Body); len(c.is) > 0 && string(body) != c.cause.Error()+"\n" {
			t.Errorf("%v: the body says %q", c.cause, body)
		}
	}
	if status, ok := guardhttp.Status(errors.New("disk full")); ok || status != http.StatusInternalServerError {
		t.Errorf("an error of another kind: %d, %t", status, ok)
	}
}

func TestTransportLeavesTheCallersRequestAlone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get(guardhttp.Header) != "7.0.job" {
			t.Errorf("header %q", r.Header.Get(guardhttp.Header))
		}
	}))
	defer server.Close()
	r, err := http.NewRequestWithContext(guard.With(t.Context(), guard.Token{Resource: "job", Epoch: 7}), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&guardhttp.Transport{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if r.Header.Get(guardhttp.Header) != "" {
		t.Error("the caller's request was changed")
	}
}
