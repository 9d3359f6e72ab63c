package layering

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A promise whose test has gone is no longer kept by anything.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	link := regexp.MustCompile(`\[([^\]]+)\]\(([^)#]+)\)`)
	root := filepath.Join("..", "..")
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, document := range append(documents, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[2], "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(document), m[2])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", document, m[2])
				continue
			}
			if !strings.HasPrefix(m[1], "Test") {
				continue
			}
			named++
			code, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s names a test in %s: %v", document, m[2], err)
			} else if !strings.Contains(string(code), "func "+m[1]+"(") {
				t.Errorf("%s names %s, which is not in %s", document, m[1], m[2])
			}
		}
	}
	if named < 50 {
		t.Errorf("the documents name %d tests, expected many more: are they still read?", named)
	}
}
