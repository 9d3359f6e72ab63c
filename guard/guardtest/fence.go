// Package guardtest helps a program test its own code that writes under tokens:
// a fence in memory, which a test shuts when it wants to, and what
// github.com/DATA-DOG/go-sqlmock needs to expect guarded statements. It is for
// tests only.
package guardtest

import (
	"context"
	"sync"

	"github.com/sqlfence/sqlfence/guard"
)

// Fence is a fence in memory. Every token is valid until the test says otherwise.
// Behind a driver with the option driver.FakeFence it takes the place of the
// database's: the texts that reach the database, or a mock of it, are the program's
// own, byte for byte, and what could not be guarded is refused as ever. It is safe
// for concurrent use; the zero value is ready.
type Fence struct {
	mu    sync.Mutex
	marks map[string]guard.Token
	asked int
}

// Check returns nil if the tokens are valid, and otherwise what the database would
// have said: a *[guard.FencedError] or a *[guard.UnregisteredError].
func (f *Fence) Check(_ context.Context, tokens ...guard.Token) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	for _, t := range tokens {
		if err := t.Validate(); err != nil {
			return err
		}
		if mark, known := f.marks[t.Resource]; known {
			if err := guard.Judge(t, mark.Epoch, mark.Grant); err != nil {
				return err
			}
		}
	}
	return nil
}

// Valid makes the token the only valid one of its resource: from now on older ones
// are fenced, and greater ones are not registered.
func (f *Fence) Valid(t guard.Token) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.marks == nil {
		f.marks = make(map[string]guard.Token)
	}
	f.marks[t.Resource] = t
}

// Stale makes the token stale, as if somebody else had taken over just now. It goes
// by resource and epoch; the grant need not be known.
func (f *Fence) Stale(t guard.Token) {
	f.Valid(guard.Token{Resource: t.Resource, Epoch: t.Epoch + 1, Grant: t.Grant + 1})
}

// Reset makes every token valid again.
func (f *Fence) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marks = nil
}

// Checks returns how often the fence was asked: how many guarded statements there
// were.
func (f *Fence) Checks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}
