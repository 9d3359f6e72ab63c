package guardhttp

import (
	"errors"
	"net/http"

	"github.com/sqlfence/sqlfence/guard"
)

// ReasonHeader is the name of the response header that tells a refusal from other
// answers of the same status: "fenced", "lost", "unregistered", "unguarded" or
// "invalid".
const ReasonHeader = "Fencing-Refusal"

// refusals are the causes with their statuses, the more special first.
var refusals = []struct {
	cause  error
	status int
	reason string
}{
	// The condition that the caller made, to be the owner, does not hold.
	{guard.ErrFenced, http.StatusPreconditionFailed, "fenced"},
	{guard.ErrLost, http.StatusPreconditionFailed, "lost"},
	// The caller can mend it, by Advance, and send the request again.
	{guard.ErrUnregistered, http.StatusConflict, "unregistered"},
	{guard.ErrUnguarded, http.StatusPreconditionRequired, "unguarded"},
	{guard.ErrInvalidInput, http.StatusBadRequest, "invalid"},
}

// Status returns the status for an error of a guarded write: 412 Precondition Failed
// for [guard.ErrFenced] and [guard.ErrLost], 409 Conflict for
// [guard.ErrUnregistered], 428 Precondition Required for [guard.ErrUnguarded], 400
// Bad Request for [guard.ErrInvalidInput]. For every other error it returns 500 and
// false: that is for the application to judge.
func Status(err error) (status int, ok bool) {
	for _, r := range refusals {
		if errors.Is(err, r.cause) {
			return r.status, true
		}
	}
	return http.StatusInternalServerError, false
}

// Error answers with the error's status and text if [Status] knows it, and reports
// whether it has. It writes nothing otherwise.
func Error(w http.ResponseWriter, err error) bool {
	for _, r := range refusals {
		if errors.Is(err, r.cause) {
			w.Header().Set(ReasonHeader, r.reason)
			http.Error(w, err.Error(), r.status)
			return true
		}
	}
	return false
}
