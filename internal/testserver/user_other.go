//go:build !unix

package testserver

import "os/exec"

// user is whom a server runs as; elsewhere than on Unix there is no choice.
type user struct{ uid, gid int }

func unprivileged(string) *user { return nil }

func detach(*exec.Cmd, *user) {}
