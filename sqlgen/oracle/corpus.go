package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
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
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl*"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no *.jsonl.gz", folder)
	}
	sort.Strings(files)
	var all []statement
	for _, file := range files {
		statements, err := readCorpus(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, statements...)
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
			return nil, err
		}
	}
	name, _, _ := strings.Cut(filepath.Base(file), ".jsonl")
	var all []statement
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		s := statement{Corpus: name}
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, lines.Err()
}
