package guard_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestATokenHasOneTextForm(t *testing.T) {
	for _, token := range []guard.Token{
		{Resource: "job-42", Epoch: 7, Grant: 0},
		{Resource: "a.b.c", Epoch: 1, Grant: -5},
		{Resource: " jób\n", Epoch: math.MaxInt64, Grant: math.MinInt64},
		{Resource: strings.Repeat("x", guard.MaxResourceBytes), Epoch: 1, Grant: math.MaxInt64},
	} {
		text, err := token.MarshalText()
		if err != nil {
			t.Errorf("%+v: %v", token, err)
			continue
		}
		var back guard.Token
		if err := back.UnmarshalText(text); err != nil || back != token {
			t.Errorf("%+v became %q and came back as %+v, error %v", token, text, back, err)
		}
	}
	for _, text := range []string{"", "7", "7.0", "7.0.", "x.0.r", "7.x.r", "0.0.r", "-1.0.r", "+7.0.r", "07.0.r", "7.-0.r", "7.+1.r",
		"7.01.r", " 7.0.r", "9223372036854775808.0.r", "7.0.a\x00b", "7.0.\xff", "7.0." + strings.Repeat("x", 256)} {
		if token, err := guard.ParseToken(text); !errors.Is(err, guard.ErrInvalidInput) {
			t.Errorf("%q was read as %+v, error %v; want ErrInvalidInput", text, token, err)
		}
	}
	if _, err := (guard.Token{Resource: "r"}).MarshalText(); !errors.Is(err, guard.ErrInvalidInput) {
		t.Errorf("a token of epoch 0 was written, error %v", err)
	}
}

func TestAContextCarriesOneTokenPerResource(t *testing.T) {
	a1, a2, b := guard.Token{Resource: "a", Epoch: 1}, guard.Token{Resource: "a", Epoch: 2}, guard.Token{Resource: "b", Epoch: 9}
	ctx := guard.With(context.Background(), b)
	inner := guard.With(ctx, a1)
	for _, c := range []struct {
		name string
		ctx  context.Context
		want []guard.Token
	}{
		{"none", context.Background(), nil},
		{"one", ctx, []guard.Token{b}},
		{"sorted by resource", inner, []guard.Token{a1, b}},
		{"the newer of one resource", guard.With(inner, a2), []guard.Token{a2, b}},
		{"no token added", guard.With(inner), []guard.Token{a1, b}},
		{"without", guard.Without(inner), nil},
		{"again after without", guard.With(guard.Without(inner), a2), []guard.Token{a2}},
	} {
		got := guard.Tokens(c.ctx)
		if len(got) != len(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			}
		}
	}
	if guard.IsWithout(inner) || !guard.IsWithout(guard.Without(inner)) || guard.IsWithout(guard.With(guard.Without(inner), a1)) {
		t.Error("IsWithout is wrong")
	}
}

func TestThePredicate(t *testing.T) {
	token := guard.Token{Resource: "r", Epoch: 5, Grant: 3}
	for _, c := range []struct {
		name        string
		mark, grant int64
		want        error
	}{
		{"the mark's own", 5, 3, nil},
		{"older", 6, 3, guard.ErrFenced},
		{"of another grant", 5, 4, guard.ErrFenced},
		{"newer", 4, 3, guard.ErrUnregistered},
		{"no mark", 0, 0, guard.ErrUnregistered},
	} {
		err := guard.Judge(token, c.mark, c.grant)
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if errors.Is(err, guard.ErrLost) != (c.want == guard.ErrFenced) {
			t.Errorf("%s: ErrLost is matched by %v", c.name, err)
		}
	}
}

func TestPoliciesThatMakeNoSenseAreRefused(t *testing.T) {
	for _, opts := range [][]guard.PolicyOption{
		{guard.Require()}, {guard.Tables()}, {guard.Tables("")}, {guard.Tables(".t")}, {guard.Tables("s.")}, {guard.Tables("a.b.c")},
	} {
		if _, err := guard.NewPolicy(opts...); !errors.Is(err, guard.ErrInvalidInput) {
			t.Errorf("error %v, want ErrInvalidInput", err)
		}
	}
}

func TestAPolicyListsTables(t *testing.T) {
	p, err := guard.NewPolicy(guard.Tables("jobs", "billing.invoices"), guard.Require())
	if err != nil {
		t.Fatal(err)
	}
	for text, listed := range map[string]bool{
		`UPDATE jobs SET a = 1`:                                     true,
		`DELETE FROM public."Jobs"`:                                 true, // where in doubt, listed
		`INSERT INTO invoices VALUES (1)`:                           true,
		`INSERT INTO other.invoices VALUES (1)`:                     false,
		`UPDATE users SET a = 1`:                                    false,
		`SELECT * FROM jobs`:                                        false,
		`WITH x AS (DELETE FROM jobs RETURNING *) SELECT * FROM x`:  true,
		`WITH x AS (DELETE FROM users RETURNING *) SELECT * FROM x`: false,
		`TRUNCATE jobs`:                                             true,
		`CALL p()`:                                                  true, // nobody knows
		`UPDATE users SET a = 1; UPDATE jobs SET a = 1`:             true,
		`UPDATE users SET a = 1; DELETE FROM users`:                 false,
		`CREATE TABLE goose_db_version (id int)`:                    false,
		`INSERT INTO goose_db_version VALUES (1)`:                   false,
	} {
		plan := sqlgen.Analyze(sqlgen.PostgreSQL, text)
		if err := p.CheckUnguarded(plan); (err != nil) != listed || listed && !errors.Is(err, guard.ErrUnguarded) {
			t.Errorf("%s: without a token: error %v, want listed %v", text, err, listed)
		}
		if got := p.Guards(plan); plan.Kind != sqlgen.KindDefinition && got != listed {
			t.Errorf("%s: guarded %v, want %v", text, got, listed)
		}
	}
	var zero guard.Policy
	if !zero.IsZero() || zero.Requires() || !zero.Guards(sqlgen.Analyze(sqlgen.PostgreSQL, `UPDATE jobs SET a = 1`)) ||
		zero.CheckUnguarded(sqlgen.Analyze(sqlgen.PostgreSQL, `UPDATE jobs SET a = 1`)) != nil {
		t.Error("the zero policy does not guard what carries a token, or asks for one")
	}
}
