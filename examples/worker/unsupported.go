//go:build !unix

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "worker: this example stops a process with SIGSTOP, which needs Unix")
	os.Exit(1)
}
