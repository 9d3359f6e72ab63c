package testserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// source is one place that a server can come from.
type source struct {
	name  string // for people
	start func(context.Context) (*Instance, error)
}

// startFirst tries each source in turn. The error of the last resort begins with
// the advice and tells what each of them said.
func startFirst(ctx context.Context, sources []source, advice string) (*Instance, error) {
	var refusals []error
	for _, source := range sources {
		instance, err := source.start(ctx)
		if err == nil {
			return instance, nil
		}
		refusals = append(refusals, fmt.Errorf("%s: %w", source.name, err))
	}
	return nil, fmt.Errorf("%s\nTried:\n%w", advice, errors.Join(indented(refusals)...))
}

func indented(errs []error) []error {
	for i, err := range errs {
		errs[i] = fmt.Errorf("  - %s", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n    "))
	}
	return errs
}
