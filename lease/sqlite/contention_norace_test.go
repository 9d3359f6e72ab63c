//go:build !race

package sqlite_test

// acquires is what each contender makes (CASES D6).
const acquires = 200

// rounds is how often the conformance suite lets acquirers race.
const rounds = 200
