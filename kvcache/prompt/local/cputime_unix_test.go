//go:build unix

package local_test

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used of processors: on a busy machine the only
// time that means anything.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
