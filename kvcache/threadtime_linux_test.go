package kvcache_test

import (
	"syscall"
	"time"
	"unsafe" //nolint:depguard // the system call takes an address, and nothing else is as exact
)

// threadTime is what the calling thread has used of a processor. Getrusage counts
// in ticks on some systems.
func threadTime() time.Duration {
	const clockThreadCPU = 3
	var t syscall.Timespec
	//nolint:gosec // the kernel fills it in before the call returns
	if _, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPU, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return 0
	}
	return time.Duration(t.Nano())
}
