//go:build !race

package sqlite_test

// acquires is what each contender makes (CASES D6).
const acquires = 200
