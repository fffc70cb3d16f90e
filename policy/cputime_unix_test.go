//go:build unix

package policy_test

import (
	"syscall"
	"time"
)

// spent is what the process has used of processors: on a busy machine the only time
// that says something about the code.
func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
