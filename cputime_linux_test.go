package kvsteer_test

import (
	"syscall"
	"time"
	"unsafe" //nolint:depguard // the system call takes an address, and nothing else is as exact
)

// On a machine that others use as well, the time that passes says little about the
// router. What it uses of a processor says more.

const (
	clockProcessCPU = 2
	clockThreadCPU  = 3
)

// cpuTime is what a process or a thread has used of processors.
func cpuTime(clock uintptr) time.Duration {
	var t syscall.Timespec
	//nolint:gosec // the kernel fills it in before the call returns
	if _, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return 0
	}
	return time.Duration(t.Nano())
}
