package guard

import (
	"errors"
	"strconv"
	"strings"
)

// The SQLSTATEs that the functions of the PostgreSQL schema raise.
const (
	stateFenced       = "SF001"
	stateUnregistered = "SF002"
	stateInvalid      = "SF003"
	stateSchema       = "SF005"
	stateExpired      = "SF009"
	stateNoLease      = "SF010"
	stateRight        = "SF011" // of the MySQL schema
)

// FromServer returns what an error of the server means for a statement that
// was guarded by the tokens: a *[FencedError], an *[UnregisteredError], a
// *[SetupError] or an error that matches [ErrInvalidInput], each unwrapping to
// err; nil if err is nil or not about the fence, in which case the caller
// returns err untouched. An err that carries one of these already is returned
// as it is.
//
// It goes by the SQLSTATE (see [SQLState]), on MySQL and MariaDB by the error's number,
// and by numbers and names in the message, never by words that the server may have
// translated (CASES D32).
func FromServer(err error, tokens []Token) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrFenced) || errors.Is(err, ErrUnregistered) || errors.Is(err, ErrSetup) {
		return err
	}
	state, server := fromServer(err)
	if state == "" {
		return fromMySQL(err)
	}
	message := server.Error()
	switch state {
	case stateFenced:
		if t, mark, ok := parseRefusal(message, "fenced", state, tokens); ok {
			return &FencedError{Token: t, HighWater: mark, Err: err}
		}
	case stateUnregistered:
		if t, mark, ok := parseRefusal(message, "unregistered", state, tokens); ok {
			return &UnregisteredError{Token: t, HighWater: mark, Err: err}
		}
	case stateExpired:
		if t, _, ok := parseRefusal(message, "expired", state, tokens); ok {
			return &ExpiredError{Token: t, Err: err}
		}
	case stateNoLease:
		return noLease(err)
	case stateInvalid:
		if strings.Contains(message, "sqlfence") {
			return &invalidError{err}
		}
	case stateSchema:
		if strings.Contains(message, ": call guard.Protect") {
			return &SetupError{Problem: "the trigger of a protected table came without its database", Remedy: "call guard.Protect for the table", Err: err}
		}
		if strings.Contains(message, "sqlfence") {
			return &SetupError{Problem: "the fence refuses to work", Remedy: "run guard.Migrate", Err: err}
		}
	case "42501": // insufficient_privilege
		if names(message, "sqlfence") || names(message, "pass") || names(message, "nothing") {
			return &SetupError{Problem: "this role may not use the fence", Remedy: grants("this role"), Err: err}
		}
	case "3F000", "42883", "42P01": // undefined schema, function, table
		if names(message, "sqlfence") {
			return &SetupError{Problem: "the schema sqlfence is missing or of another version", Remedy: "run guard.Migrate", Err: err}
		}
	}
	return nil
}

func noLease(err error) error {
	return &SetupError{
		Problem: "the policy ends ownership at the expiry, and this database holds no lease of the token",
		Remedy:  "keep the leases in the guarded database, or drop UntilExpiry from the policy",
		Err:     err,
	}
}

// SQLState returns the SQLSTATE of the server's error in the chain of err, "" where
// there is none: what the first error says that has a method SQLState, as those of
// pgx and lib/pq have, or a method Field, as those of bun's pgdriver have.
func SQLState(err error) string {
	state, _ := fromServer(err)
	return state
}

func fromServer(err error) (state string, server error) {
	var s interface {
		error
		SQLState() string
	}
	if errors.As(err, &s) {
		return s.SQLState(), s
	}
	var f interface {
		error
		Field(byte) string // by the letters of the protocol's error message
	}
	if errors.As(err, &f) {
		return f.Field('C'), f
	}
	return "", nil
}

// grants returns the statements that let a role write under the fence.
func grants(role string) string {
	return "GRANT USAGE ON SCHEMA sqlfence TO " + role + "; " +
		"GRANT EXECUTE ON FUNCTION sqlfence.pass(text, bigint, bigint) TO " + role + "; " +
		"GRANT INSERT ON sqlfence.nothing TO " + role
}

// invalidError is the server's refusal of a value that can never be right.
type invalidError struct{ err error }

func (e *invalidError) Error() string        { return ErrInvalidInput.Error() + ": " + e.err.Error() }
func (e *invalidError) Is(target error) bool { return target == ErrInvalidInput }
func (e *invalidError) Unwrap() error        { return e.err }

// parseRefusal reads "sqlfence: fenced: high_water=7 grant=1 epoch=6
// resource=job" out of what a driver made of the server's message. The
// resource comes last because it may contain anything, the driver's own
// additions included; so the presented tokens are asked first which of them
// it is.
func parseRefusal(message, word, state string, tokens []Token) (t Token, mark int64, ok bool) {
	_, rest, ok := strings.Cut(message, "sqlfence: "+word+": ")
	if !ok {
		return Token{}, 0, false
	}
	mark, rest, ok1 := cutNumber(rest, "high_water=")
	_, rest, ok2 := cutNumber(rest, "grant=")
	epoch, rest, ok3 := cutNumber(rest, "epoch=")
	resource, ok4 := strings.CutPrefix(rest, "resource=")
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return Token{}, 0, false
	}
	for _, p := range tokens {
		if p.Epoch == epoch && len(p.Resource) > len(t.Resource) && strings.HasPrefix(resource, p.Resource) {
			t = p
		}
	}
	if t.Resource != "" {
		return t, mark, true
	}
	// A token that the caller did not present: the user's own SQL called the
	// check. It is refused all the same; drivers append the SQLSTATE.
	resource = strings.TrimSuffix(resource, " (SQLSTATE "+state+")")
	resource = strings.TrimSuffix(resource, " (SQLSTATE="+state+")")
	resource = strings.TrimSuffix(resource, " ("+state+")")
	return Token{Resource: resource, Epoch: epoch}, mark, true
}

// cutNumber cuts "key<number> " off the front of s.
func cutNumber(s, key string) (n int64, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, key)
	if !ok {
		return 0, "", false
	}
	digits, rest, ok := strings.Cut(s, " ")
	if !ok {
		return 0, "", false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, rest, err == nil
}

// names reports whether the identifier stands in the message as a whole word.
func names(message, identifier string) bool {
	for from := 0; ; {
		i := strings.Index(message[from:], identifier)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(identifier)
		if (start == 0 || !isIdentifier(message[start-1])) && (end == len(message) || !isIdentifier(message[end])) {
			return true
		}
		from = end
	}
}

// isIdentifier takes letters beyond ASCII for boundaries: translated messages put
// quotation marks, or no space at all, around a name.
func isIdentifier(b byte) bool {
	return b == '_' || b == '$' ||
		'0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}
