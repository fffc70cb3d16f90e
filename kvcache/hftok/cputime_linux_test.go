//go:build cgo && linux

package hftok_test

import (
	"syscall"
	"time"
)

// rusageThread is RUSAGE_THREAD of getrusage(2), which package syscall leaves out.
const rusageThread = 1

// cpuTime is what the calling thread has computed so far: the same on a busy
// machine as on an idle one.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
