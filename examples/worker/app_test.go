package main

import (
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// TestTheApplicationKnowsNothingOfTheFence holds app.go to its first comment.
func TestTheApplicationKnowsNothingOfTheFence(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "app.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if path != "context" && path != "database/sql" {
			t.Errorf("app.go imports %q", path)
		}
	}
}
