//go:build unix && !linux

package cputime

import (
	"syscall"
	"time"
)

func process() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func thread() time.Duration { return process() }
