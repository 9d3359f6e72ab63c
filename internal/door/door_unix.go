//go:build unix && !solaris && !aix

package door

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// isOpen reports whether nobody has the door shut. It looks at the file that is
// there now: the one of the time before is removed.
func isOpen(name string) bool {
	f, err := openFile(name, os.O_RDONLY)
	if err != nil {
		return true // there is no door, or it is not ours to look at
	}
	defer f.Close()
	return lock(f, syscall.LOCK_SH) == nil // closing gives it back
}

func shut(name string) (open func(), ok bool, err error) {
	f, made, err := makeFile(name)
	if err != nil || f == nil {
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
	if !isAt(f, name) {
		f.Close()
		return nil, false, nil
	}
	return func() {
		if (made || isMarked(f)) && isAt(f, name) {
			os.Remove(name) // if it stays, it is no more than a file
		}
		f.Close()
	}, true, nil
}

// makeFile makes the file, or opens the one that is there; nil if that was removed
// meanwhile.
func makeFile(name string) (f *os.File, made bool, err error) {
	f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o666)
	if err == nil {
		_, _ = f.WriteString(mark) // without it the file stays if this process is killed
		return f, true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, false, err
	}
	f, err = openFile(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return f, false, err
}

// openFile opens a file that may be a door: an ordinary one under this name alone,
// with nothing else in it than a door has.
func openFile(name string, how int) (*os.File, error) {
	f, err := os.OpenFile(name, how|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		stat, ok := info.Sys().(*syscall.Stat_t)
		if info.Mode().IsRegular() && ok && stat.Nlink <= 1 && (info.Size() == 0 || isMarked(f)) {
			return f, nil
		}
		err = fmt.Errorf("sqlfence: %s is there and is no lock file of ours", name)
	}
	f.Close()
	return nil, err
}

// isMarked reports whether the file was made here.
func isMarked(f *os.File) bool {
	content := make([]byte, len(mark)+1)
	n, _ := f.ReadAt(content, 0) // io.EOF at its end
	return string(content[:n]) == mark
}

// isAt reports whether the file is the one of that name.
func isAt(f *os.File, name string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(mine, there)
}

func lock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
