// Package grant makes the numbers that tell grants, and requests, apart.
package grant

import (
	"crypto/rand"
	"encoding/binary"
)

// New returns a random number other than 0.
func New() int64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails
		if n := int64(binary.NativeEndian.Uint64(b[:])); n != 0 {
			return n
		}
	}
}
