//go:build unix

package testserver

import (
	"os"
	"os/exec"
	osuser "os/user"
	"strconv"
	"syscall"
)

// user is whom a server runs as.
type user struct{ uid, gid int }

// unprivileged returns whom a server that refuses root must run as: the user that
// its package made, if there is one; nil if we are not root.
func unprivileged(name string) *user {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{name, "nobody"} {
		found, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(found.Uid)
		gid, err2 := strconv.Atoi(found.Gid)
		if err1 == nil && err2 == nil && uid > 0 {
			return &user{uid, gid}
		}
	}
	return &user{65534, 65534}
}

// detach gives the command its user and a process group of its own, so that an
// interrupt from the keyboard reaches us and not the server.
func detach(cmd *exec.Cmd, as *user) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)}
	}
}
