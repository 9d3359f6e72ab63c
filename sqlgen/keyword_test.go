package sqlgen

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryKeywordIsFound(t *testing.T) {
	if !slices.IsSorted(keywordNames[:]) {
		t.Error("the keywords are not sorted")
	}
	for k := notKeyword + 1; int(k) < len(keywordNames); k++ {
		for _, word := range []string{k.String(), strings.ToLower(k.String())} {
			if got := lookupKeyword(word); got != k {
				t.Errorf("%s is found as %v", word, got)
			}
		}
		for _, word := range []string{k.String() + "x", "x" + k.String(), k.String()[:1] + "\xc9", strings.ReplaceAll(k.String(), "S", "ſ")} {
			if got := lookupKeyword(word); got != notKeyword && got.String() != strings.ToUpper(word) {
				t.Errorf("%q is found as %v", word, got)
			}
		}
	}
	for _, word := range []string{"_", "a", "é", "\x7b", "`IF", "{NTO", "SE@"} {
		if got := lookupKeyword(word); got != notKeyword {
			t.Errorf("%q is found as %v", word, got)
		}
	}
}
