package leasetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sqlfence/sqlfence/lease"
)

// invalidNames are refused as a resource and as an owner.
var invalidNames = map[string]string{
	"empty":             "",
	"256 bytes":         strings.Repeat("x", 256),
	"256 bytes, 86 é…":  strings.Repeat("é", 127) + "xx",
	"300 bytes":         strings.Repeat("x", 300),
	"NUL":               "a\x00b",
	"invalid UTF-8":     "a\xffb",
	"half a surrogate":  "a\xed\xa0\x80b",
	"a cut-off UTF-8 é": "a\xc3",
}

// likeNames are all different, though a collation might think otherwise.
var likeNames = []string{
	"Job", "job", "JOB", "jób", "jo\u0301b", "jøb", "job ", "job  ", " job", "job\t", "job\n", "job\r\n", "job\u00a0",
	"j{o}b", "{job}", "{}job", "job{", "}job{", "job:1", "job/1", "job.1", "job%", "jo_", "job*", "[job]",
	"jo'b", `jo"b`, "jo`b", `job\`, `job\\`, "job;--", "$1", "?", ":job", "ß", "ss", "ſ", "s", "日本", "😀", "👩‍👩‍👧", "0", "00",
}

var nameClauses = []clause{
	{"names are compared byte for byte (CASES D37)", func(t *testing.T, s *suite) {
		prefix := s.resource() + "/"
		claims := make([]lease.Claim, len(likeNames))
		for i, name := range likeNames {
			claims[i] = s.take(t, prefix+name, fmt.Sprint("owner of ", name))
		}
		for i, name := range likeNames {
			state := s.inspect(t, prefix+name)
			if state.Owner != claims[i].Owner || state.Epoch != claims[i].Token.Epoch {
				t.Errorf("state of %q: %+v, want owner %q, epoch %d", name, state, claims[i].Owner, claims[i].Token.Epoch)
			}
			s.mustRenew(t, claims[i])
			s.mustRelease(t, claims[i])
			if i+1 < len(likeNames) {
				if next := s.inspect(t, prefix+likeNames[i+1]); next.Status != lease.Held {
					t.Errorf("the release of %q changed %q: %+v", name, likeNames[i+1], next)
				}
			}
		}
	}},
	{"owners are compared byte for byte", func(t *testing.T, s *suite) {
		resource := s.resource()
		for _, owner := range likeNames {
			c := s.take(t, resource, owner)
			held := s.inspect(t, resource)
			if held.Owner != owner {
				t.Errorf("state %+v, want owner %q", held, owner)
			}
			for _, other := range likeNames {
				if other == owner {
					continue
				}
				forged := c
				forged.Owner = other
				if _, err := s.renew(t.Context(), t, forged); err == nil {
					t.Errorf("Renew by %q of a lease held by %q: success, want a refusal", other, owner)
				}
			}
			s.unchanged(t, held)
			s.mustRelease(t, c)
		}
	}},
	{"255 bytes of UTF-8 are valid", func(t *testing.T, s *suite) {
		prefix := s.resource() + "/"
		for _, filler := range []string{"x", "é", "日", "😀"} {
			room := 255 - len(prefix)
			name := prefix + strings.Repeat(filler, room/len(filler))
			name += strings.Repeat("y", 255-len(name))
			owner := strings.Repeat(filler, 255/len(filler))
			owner += strings.Repeat("y", 255-len(owner))
			c := s.take(t, name, owner)
			s.mustRenew(t, c)
			if state := s.inspect(t, name); state.Owner != owner {
				t.Errorf("owner of 255 bytes of %q comes back as %q", filler, state.Owner)
			}
			s.mustRelease(t, c)
		}
	}},
	{"a name that is empty, too long, not UTF-8 or with a NUL is invalid", func(t *testing.T, s *suite) {
		resource := s.resource()
		a := s.take(t, resource, "a")
		before := s.inspect(t, resource)
		for what, name := range invalidNames {
			ctx := t.Context()
			_, err := s.store.Acquire(ctx, ask(name, "a"))
			wantIs(t, "Acquire of a resource: "+what, err, lease.ErrInvalidInput)
			_, err = s.store.Acquire(ctx, ask(s.resource(), name))
			wantIs(t, "Acquire by an owner: "+what, err, lease.ErrInvalidInput)
			_, err = s.store.Inspect(ctx, name)
			wantIs(t, "Inspect of a resource: "+what, err, lease.ErrInvalidInput)

			c := a
			c.Token.Resource = name
			_, err = s.renew(ctx, t, c)
			wantIs(t, "Renew of a resource: "+what, err, lease.ErrInvalidInput)
			wantIs(t, "Release of a resource: "+what, s.release(ctx, c), lease.ErrInvalidInput)
			c = a
			c.Owner = name
			_, err = s.renew(ctx, t, c)
			wantIs(t, "Renew by an owner: "+what, err, lease.ErrInvalidInput)
			wantIs(t, "Release by an owner: "+what, s.release(ctx, c), lease.ErrInvalidInput)
		}
		s.unchanged(t, before)
	}},
	{"an invalid claim does not fail the others of its batch", func(t *testing.T, s *suite) {
		good, bad, short := s.take(t, s.resource(), "a"), s.take(t, s.resource(), "a"), s.take(t, s.resource(), "a")
		bad.Owner, short.TTL = "", 0
		renewed, err := s.store.Renew(t.Context(), []lease.Claim{bad, good, short})
		if err != nil || len(renewed) != 3 {
			t.Fatalf("Renew of 3 claims: %d results, error %v", len(renewed), err)
		}
		wantIs(t, "the claim without an owner", renewed[0].Err, lease.ErrInvalidInput)
		wantIs(t, "the claim without a TTL", renewed[2].Err, lease.ErrInvalidInput)
		if renewed[1].Err != nil {
			t.Errorf("the good claim: %v, want success", renewed[1].Err)
		}
	}},
}
