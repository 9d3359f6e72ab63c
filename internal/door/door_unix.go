//go:build unix && !solaris && !aix

package door

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// isOpen reports whether nobody has the door shut. It looks at the file that is
// there now: the one of the time before is removed.
func isOpen(name string) bool {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return true // there is no door, or it is not ours to look at
	}
	defer f.Close()
	return lock(f, syscall.LOCK_SH) == nil // closing gives it back
}

func shut(name string) (open func(), ok bool, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, false, err
	}
	if err := lock(f, syscall.LOCK_EX); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = nil
		}
		return nil, false, err
	}
	// Whoever had it before may have removed the file between our two steps.
	mine, err := f.Stat()
	if err == nil {
		var there fs.FileInfo
		if there, err = os.Stat(name); err == nil && os.SameFile(mine, there) {
			return func() {
				os.Remove(name) // if it stays, it is no more than a file
				f.Close()
			}, true, nil
		}
	}
	f.Close()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nil, false, err
}

func lock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
