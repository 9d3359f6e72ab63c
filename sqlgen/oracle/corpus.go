package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// statement is one line of a corpus: a statement that a real program or a real
// test suite sends.
type statement struct {
	Corpus  string `json:"-"`       // the file of the corpora folder, without .jsonl[.gz]
	File    string `json:"file"`    // where the statement was found
	Line    int    `json:"line"`    //
	Dialect string `json:"dialect"` // postgres, mysql or sqlite: for whom it was written
	SQL     string `json:"sql"`
}

// defaultFolder is what SQLFENCE_CORPORA names, or the corpora beside the
// repository, or this module's own few statements.
func defaultFolder() string {
	if folder := os.Getenv("SQLFENCE_CORPORA"); folder != "" {
		return folder
	}
	beside := filepath.Join("..", "..", "..", "shared", "corpora")
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	return filepath.Join("testdata", "corpora")
}

// readCorpora reads every *.jsonl.gz and *.jsonl of a folder, in the order of
// their names.
func readCorpora(folder string) ([]statement, error) {
	if info, err := os.Stat(folder); err != nil {
		return nil, fmt.Errorf("the folder of corpora cannot be read: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder: name the one that holds the *.jsonl.gz", folder)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var all []statement
	for _, e := range entries { // sorted by name
		if !strings.HasSuffix(e.Name(), ".jsonl") && !strings.HasSuffix(e.Name(), ".jsonl.gz") {
			continue
		}
		statements, err := readCorpus(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, statements...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no statement: it wants files *.jsonl.gz or *.jsonl with one JSON object a line", folder)
	}
	return all, nil
}

func readCorpus(file string) ([]statement, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if text, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	name, _, _ := strings.Cut(filepath.Base(file), ".jsonl")
	var all []statement
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		s := statement{Corpus: name}
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("%s:%d: not the JSON object of a statement: %w", file, n, err)
		}
		if s.Dialect == "" {
			return nil, fmt.Errorf("%s:%d: it names no dialect: this is no file of statements", file, n)
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}
