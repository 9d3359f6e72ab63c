package guardgrpc

import (
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlfence/sqlfence/guard"
)

// Domain is the domain of the ErrorInfo among a refusal's details that tells it from
// other answers of the same code. Its reason is FENCED, LOST, UNREGISTERED, UNGUARDED
// or INVALID.
const Domain = "sqlfence"

// refusals are the causes with their codes, the more special first.
var refusals = []struct {
	cause  error
	code   codes.Code
	reason string
}{
	// A sequencer check has failed: to be repeated from the start, by the owner.
	{guard.ErrFenced, codes.Aborted, "FENCED"},
	{guard.ErrLost, codes.Aborted, "LOST"},
	// The caller can mend it, by Advance or with a token, and call again.
	{guard.ErrUnregistered, codes.FailedPrecondition, "UNREGISTERED"},
	{guard.ErrUnguarded, codes.FailedPrecondition, "UNGUARDED"},
	{guard.ErrInvalidInput, codes.InvalidArgument, "INVALID"},
}

// Status returns the status for an error of a guarded write: Aborted for
// [guard.ErrFenced] and [guard.ErrLost], FailedPrecondition for
// [guard.ErrUnregistered] and [guard.ErrUnguarded], InvalidArgument for
// [guard.ErrInvalidInput], each with an ErrorInfo of [Domain]. For every other error
// it returns [status.Convert]'s and false: that is for the application to judge.
func Status(err error) (s *status.Status, ok bool) {
	for _, r := range refusals {
		if !errors.Is(err, r.cause) {
			continue
		}
		// A text of a server may hold any bytes; a message may not.
		s := status.New(r.code, strings.ToValidUTF8(err.Error(), "\uFFFD"))
		if detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: r.reason, Domain: Domain}); err == nil {
			s = detailed
		}
		return s, true
	}
	return status.Convert(err), false
}

// answer returns what is answered to a handler's error.
func answer(err error) error {
	if s, ok := Status(err); ok {
		return s.Err()
	}
	return err
}

// Refusal returns the refusal that the other side answered by [Status]: a
// *[RemoteError] that matches guard.ErrFenced, guard.ErrLost, guard.ErrUnregistered,
// guard.ErrUnguarded or guard.ErrInvalidInput; nil for every other error, and for nil.
// The client interceptors return it in the place of the bare status.
func Refusal(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, detail := range s.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != Domain {
			continue
		}
		for _, r := range refusals {
			if r.reason == info.GetReason() && r.code == s.Code() {
				return &RemoteError{Status: s, Cause: r.cause}
			}
		}
	}
	return nil
}

// RemoteError is a refusal by a service that was called. It matches its cause, and
// [guard.ErrLost] if that is [guard.ErrFenced]; [status.FromError] finds its status.
type RemoteError struct {
	Status *status.Status
	Cause  error
}

func (e *RemoteError) Error() string {
	return e.Cause.Error() + ": by the service that was called: " + e.Status.Code().String() + ": " + e.Status.Message()
}

// GRPCStatus returns the status that was answered.
func (e *RemoteError) GRPCStatus() *status.Status { return e.Status }

// Is makes a fenced call match [guard.ErrLost].
func (e *RemoteError) Is(target error) bool {
	return target == guard.ErrLost && e.Cause == guard.ErrFenced //nolint:errorlint // the sentinel itself
}

// Unwrap returns the cause.
func (e *RemoteError) Unwrap() error { return e.Cause }
