//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ledger

import (
	"os"
	"syscall"
)

// lock holds a file until it is closed, or its process ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, private) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // the first error says more
		return nil, inUse(path, err)
	}
	return f, nil
}

// syncDir makes the names in a folder last.
func syncDir(path string) error {
	d, err := os.Open(path) //nolint:gosec // it is the folder of the user's file
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // it was only read
	return d.Sync()
}
