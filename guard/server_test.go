package guard

import (
	"errors"
	"fmt"
	"testing"
)

// serverError is what pgx makes of the server's message.
type serverError struct{ state, message string }

func (e *serverError) Error() string {
	return "ERROR: " + e.message + " (SQLSTATE " + e.state + ")"
}
func (e *serverError) SQLState() string { return e.state }

func TestFromServerTellsTheFenceFromEverythingElse(t *testing.T) {
	a := Token{Resource: "job-4", Epoch: 6, Grant: 11}
	b := Token{Resource: "job-42 (SQLSTATE", Epoch: 6, Grant: 12}
	presented := []Token{a, b}
	tests := []struct {
		name           string
		state, message string
		want           error // nil: not ours
	}{
		{"a stale token is fenced", "SF001", "sqlfence: fenced: high_water=7 grant=11 epoch=6 resource=job-4",
			&FencedError{Token: a, HighWater: 7}},
		{"of two tokens the longer name is meant", "SF001", "sqlfence: fenced: high_water=7 grant=12 epoch=6 resource=job-42 (SQLSTATE",
			&FencedError{Token: b, HighWater: 7}},
		{"a negative grant is a number", "SF001", "sqlfence: fenced: high_water=6 grant=-9223372036854775808 epoch=6 resource=job-4",
			&FencedError{Token: a, HighWater: 6}},
		{"a token that was not presented is fenced too", "SF001", "sqlfence: fenced: high_water=7 grant=0 epoch=3 resource=other name",
			&FencedError{Token: Token{Resource: "other name", Epoch: 3}, HighWater: 7}},
		{"an unknown token is unregistered", "SF002", "sqlfence: unregistered: high_water=0 grant=0 epoch=6 resource=job-4",
			&UnregisteredError{Token: a}},
		{"somebody else's SF001 is not ours", "SF001", "shop floor: station 1 is closed", nil},
		{"the user's unique violation is not ours", "23505", "duplicate key value violates unique constraint \"sqlfence\"", nil},
		{"a lock timeout is not a fence", "55P03", "canceling statement due to lock timeout", nil},
		{"the user's missing table is not ours", "42P01", "relation \"jobs\" does not exist", nil},
		{"the user's closed table is not ours", "42501", "permission denied for table passengers", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := &serverError{tt.state, tt.message}
			got := FromServer(fmt.Errorf("wrapped: %w", raw), presented)
			if tt.want == nil {
				if got != nil {
					t.Fatalf("expected nil, saw %v", got)
				}
				return
			}
			if got == nil || got.Error() != tt.want.Error() {
				t.Fatalf("expected %v, saw %v", tt.want, got)
			}
			if !errors.Is(got, raw) {
				t.Errorf("%v does not unwrap to the server's error", got)
			}
			if again := FromServer(got, presented); again != got { //nolint:errorlint // identity is the point
				t.Errorf("expected the same error again, saw %v", again)
			}
		})
	}
	if err := FromServer(nil, presented); err != nil {
		t.Errorf("expected nil for nil, saw %v", err)
	}
	if err := FromServer(errors.New("sqlfence: fenced: high_water=7 grant=1 epoch=6 resource=job-4"), presented); err != nil {
		t.Errorf("expected nil for an error without a SQLSTATE, saw %v", err)
	}
}

// fieldError is what bun's pgdriver makes of the server's message.
type fieldError struct{ fields map[byte]string }

func (e fieldError) Error() string {
	return fmt.Sprintf("%s: %s (SQLSTATE=%s)", e.fields['S'], e.fields['M'], e.fields['C'])
}
func (e fieldError) Field(k byte) string { return e.fields[k] }

func TestFromServerUnderstandsErrorsThatTellTheirFields(t *testing.T) {
	raw := fieldError{map[byte]string{'S': "ERROR", 'C': "SF001", 'M': "sqlfence: fenced: high_water=7 grant=11 epoch=6 resource=job-4"}}
	for _, presented := range [][]Token{nil, {{Resource: "job-4", Epoch: 6, Grant: 11}}} {
		var fenced *FencedError
		if err := FromServer(fmt.Errorf("wrapped: %w", raw), presented); !errors.As(err, &fenced) || fenced.Token.Resource != "job-4" || fenced.HighWater != 7 {
			t.Errorf("presented %v: expected job-4 to be fenced by 7, saw %v", presented, err)
		}
	}
	if got := SQLState(fmt.Errorf("wrapped: %w", raw)); got != "SF001" {
		t.Errorf("SQLState: expected SF001, saw %q", got)
	}
	if got := SQLState(errors.New("SF001")); got != "" {
		t.Errorf("SQLState of an error that is not a server's: expected none, saw %q", got)
	}
}

func TestFromServerReportsAnUnreadyDatabaseAsSetup(t *testing.T) {
	for _, raw := range []*serverError{
		{"3F000", `schema "sqlfence" does not exist`},
		{"42883", "function sqlfence.pass(text, bigint, bigint) does not exist"},
		{"42P01", "la relación «sqlfence.nothing» no existe"},
		{"42501", "permission denied for schema sqlfence"},
		{"42501", "keine Berechtigung für Funktion pass"},
		{"42501", "permission denied for table nothing"},
		{"SF005", "sqlfence: schema: version 2"},
	} {
		if err := FromServer(raw, nil); !errors.Is(err, ErrSetup) || !errors.Is(err, raw) {
			t.Errorf("%v: expected a set-up error around it, saw %v", raw, err)
		}
	}
	if err := FromServer(&serverError{"SF003", "sqlfence: invalid input: empty resource"}, nil); !errors.Is(err, ErrInvalidInput) {
		t.Errorf("expected ErrInvalidInput, saw %v", err)
	}
}
