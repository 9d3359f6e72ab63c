package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAShortRunIsComplete(t *testing.T) {
	dir := t.TempDir()
	o, err := parseFlags([]string{"-short", "-engines", "sqlite,redis", "-out", dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "LEASES.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, want := range []string{
		"| sqlfence |", "bsm/redislock", "go-redsync/redsync", "| notification |", "| polling |", "| 100 | 100 |", "| release |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("LEASES.md lacks %q", want)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, dir) {
		t.Errorf("a number is missing, or a path is told:\n%s", text)
	}
}

func TestFlagsThatMeanNothingAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-engines", "oracle"}, {"-rounds", "0"}, {"-seconds", "0"}, {"-nothing"}} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
