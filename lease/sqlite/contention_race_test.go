//go:build race

package sqlite_test

// acquires is what each contender makes. The race detector makes SQLite, which
// is translated C here, slower by a factor of 30.
const acquires = 20

// rounds is how often the conformance suite lets acquirers race.
const rounds = 20
