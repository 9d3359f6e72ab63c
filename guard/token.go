package guard

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxResourceBytes is the longest resource name, in bytes of UTF-8.
const MaxResourceBytes = 255

// Token is a fencing token: proof that a grant of a resource was made at an
// epoch. It is a plain value, safe to copy, compare and send to another
// process; its text form is that of [Token.String].
type Token struct {
	// Resource is the name of the thing owned: 1 to 255 bytes of valid UTF-8
	// without NUL, compared byte for byte.
	Resource string
	// Epoch is the fencing token's number, at least 1. Per resource it only
	// ever grows.
	Epoch int64
	// Grant tells two grants of the same epoch apart. It is 0 in tokens
	// issued by something other than a sqlfence lease store.
	Grant int64
}

// Validate returns an error that matches [ErrInvalidInput] if the token could
// not have been issued by anybody, and nil otherwise.
func (t Token) Validate() error {
	if err := ValidateResource(t.Resource); err != nil {
		return err
	}
	if t.Epoch < 1 {
		return fmt.Errorf("%w: token of %q: epoch %d is below 1", ErrInvalidInput, t.Resource, t.Epoch)
	}
	return nil
}

// ValidateResource returns an error that matches [ErrInvalidInput] unless name
// is 1 to 255 bytes of valid UTF-8 without NUL.
func ValidateResource(name string) error { return validateName("resource", name) }

// ValidateOwner returns an error that matches [ErrInvalidInput] unless name is
// 1 to 255 bytes of valid UTF-8 without NUL.
func ValidateOwner(name string) error { return validateName("owner", name) }

func validateName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: empty %s", ErrInvalidInput, what)
	case len(name) > MaxResourceBytes:
		return fmt.Errorf("%w: %s of %d bytes, at most %d", ErrInvalidInput, what, len(name), MaxResourceBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %s is not valid UTF-8", ErrInvalidInput, what)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: %s holds a NUL byte", ErrInvalidInput, what)
	}
	return nil
}

// String returns the stable text form "epoch.grant.resource", for headers,
// environment variables and logs. [ParseToken] reads it back.
func (t Token) String() string {
	b := make([]byte, 0, 42+len(t.Resource))
	b = strconv.AppendInt(b, t.Epoch, 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, t.Grant, 10)
	b = append(b, '.')
	b = append(b, t.Resource...)
	return string(b)
}

// ParseToken reads the form that [Token.String] writes. The error matches
// [ErrInvalidInput].
func ParseToken(s string) (Token, error) {
	epoch, rest, ok1 := strings.Cut(s, ".")
	grant, resource, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 {
		return Token{}, fmt.Errorf("%w: token %q is not of the form epoch.grant.resource", ErrInvalidInput, s)
	}
	e, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("%w: token %q: the epoch is not a 64-bit number", ErrInvalidInput, s)
	}
	g, err := strconv.ParseInt(grant, 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("%w: token %q: the grant is not a 64-bit number", ErrInvalidInput, s)
	}
	t := Token{Resource: resource, Epoch: e, Grant: g}
	if err := t.Validate(); err != nil {
		return Token{}, err
	}
	if t.String() != s {
		// One token, one text: texts are compared, cached and logged.
		return Token{}, fmt.Errorf("%w: token %q is not in its one form %q", ErrInvalidInput, s, t.String())
	}
	return t, nil
}

// MarshalText implements [encoding.TextMarshaler] with the form of
// [Token.String]. An invalid token is an error.
func (t Token) MarshalText() ([]byte, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return []byte(t.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]; see [ParseToken].
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}
