package ledger

import (
	"os"
	"syscall"
)

// lock holds a file until it is closed, or its process ends.
func lock(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	const notShared = 0
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, notShared, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, inUse(path, err)
	}
	return os.NewFile(uintptr(h), path), nil
}

// syncDir has nothing to do: the file system keeps names itself.
func syncDir(string) error { return nil }
